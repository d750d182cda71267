"""Columns of tables and data frames: what their cells are, and their numbers."""
