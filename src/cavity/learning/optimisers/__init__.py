"""Searches for parameters: L-BFGS-B, Adam, restarts, and their checkpoints."""
