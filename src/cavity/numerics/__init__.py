"""Floor 0: arrays, linear algebra, Gaussians and parameters. No Gaussian process in sight."""
