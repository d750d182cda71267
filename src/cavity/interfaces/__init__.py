"""Floor 5: the edges of the world. Estimators, files, plots, the report, the command line."""
