"""Approximations: what stands in the place of a likelihood term."""
