"""Inducing variables of other domains and sums of points: van der Wilk (2018), chapter 4."""
