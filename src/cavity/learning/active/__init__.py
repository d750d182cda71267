"""Active learning: which rows to measure next."""
