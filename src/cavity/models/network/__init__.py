"""Networks with hidden units."""
