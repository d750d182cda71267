"""Benchmarks: figures with their machine and versions, never tests."""
