"""Models whose inputs are latent variables of the rows."""
