"""Factors: likelihood terms of the same form, one per row, and their messages."""
