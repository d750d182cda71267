"""Progress of a fit, stored so that it can be resumed."""
