"""Data as learning takes them: checked, padded, in memory or in batches."""
