"""Markov chain Monte Carlo: the reference for small tables."""
