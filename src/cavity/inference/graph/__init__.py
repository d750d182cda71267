"""What a model is laid out as: rows, views of variables, sites and their slots."""
