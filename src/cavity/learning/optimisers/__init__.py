"""Optimisers of parameters: L-BFGS-B, Adam, restarts, and their checkpoints."""
