"""Deep Gaussian processes: layers whose outputs are the inputs of the next."""
