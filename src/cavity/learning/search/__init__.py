"""Searches from several starts, by restarts and by minibatches."""
