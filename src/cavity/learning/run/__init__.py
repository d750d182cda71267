"""Fits, and samples of parameters, from a call to its result."""
