"""Gaussian variables and their posteriors, the beliefs."""
