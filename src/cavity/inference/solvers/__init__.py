"""Solvers: algorithms that find the fixed point of the sites."""
