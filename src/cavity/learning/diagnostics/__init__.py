"""What is asked of a fitted model beyond its posterior."""
