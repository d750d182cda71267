"""Floor 2, inference: the energy, the site update, and the solvers that find fixed points."""
