"""Training data: checked, padded, in memory or in batches."""
