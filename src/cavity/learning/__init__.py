"""Floor 4, learning: starting values, optimisation, inference at the optimum and its results."""
