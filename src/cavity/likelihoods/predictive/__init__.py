"""Predictive distributions of outputs."""
