"""Where learning starts: inducing points, parameters, and trials of several starts."""
