"""Linear models: priors on weights as factors."""
