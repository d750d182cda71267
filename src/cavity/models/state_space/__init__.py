"""Gaussian-process state-space models."""
