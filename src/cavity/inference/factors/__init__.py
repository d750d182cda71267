"""Factors: alike likelihood terms, one per row, and the messages that they send."""
