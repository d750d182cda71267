"""Measures of predictions against outputs."""
