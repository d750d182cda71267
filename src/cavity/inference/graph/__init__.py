"""The graph of a model: rows, views of variables, sites and messages."""
