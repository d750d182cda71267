"""Initialisation: inducing points, starting values of parameters, and their comparison."""
