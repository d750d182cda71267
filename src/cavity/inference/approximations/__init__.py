"""Approximations: local terms that replace the likelihood, and where they are evaluated."""
