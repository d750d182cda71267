"""Methods: an approximation, a solver and a way of learning."""
