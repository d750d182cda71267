"""Solvers: how sites are brought to a fixed point."""
