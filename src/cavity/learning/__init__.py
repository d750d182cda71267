"""Floor 4: starting values, optimisation, and what it gives."""
