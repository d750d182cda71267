"""Gaussian variables and their posteriors."""
