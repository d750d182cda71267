"""Predictions that are exact enough to be drawn."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from cavity.likelihoods.predictive.numerical import NumericalPredictive


@dataclasses.dataclass(frozen=True, eq=False)
class RoughPredictions:
    """Means and quantiles from tables, quick and exact enough to be drawn.

    Attributes:
        mean: means, (n, P).
        tables: of each output.
    """

    mean: np.ndarray
    tables: list[NumericalPredictive]

    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        """Quantiles, (n, P, Q)."""
        return np.stack([t.quantiles(np.asarray(levels)) for t in self.tables], axis=1)
