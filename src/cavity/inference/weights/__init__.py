"""Weights of linear functions: variables with a flat prior, whose priors are factors."""
