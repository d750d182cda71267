"""Fits over the parts of a table, in one process and in several."""
