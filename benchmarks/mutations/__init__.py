"""Deliberate faults of the source, and the tests that must notice each of them."""
