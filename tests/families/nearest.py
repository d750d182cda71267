"""An estimator that no family of the package has."""

import dataclasses

import numpy as np

from cavity import GPRegressor


@dataclasses.dataclass(eq=False, repr=False)
class NearestRegressor(GPRegressor):
    """A Gaussian process of the first rows, so many of them."""

    n_rows: object = 3
    max_iterations: object = 3

    def fit(self, X, y, **given):
        """Learns from the first rows."""
        return super().fit(np.asarray(X)[: self.n_rows], y[: self.n_rows], **given)
