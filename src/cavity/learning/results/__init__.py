"""Results of fits and inference."""
