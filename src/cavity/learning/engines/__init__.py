"""Engines: what applies a function to every part of a table and adds the results."""
