"""Time series with hidden states: systems, published sets, and baselines."""
