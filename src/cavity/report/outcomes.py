"""Targets of a table beside what a model says of them."""

import dataclasses
import functools

import numpy as np

from cavity.learning.metrics.regression import coverage
from cavity.likelihoods.predictive.numerical import NumericalPredictive

SMALLEST = 1e-12  # probability that still has a normal deviate


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """One target of a table and what a model says of it.

    Attributes:
        observed: targets, (N,).
        mean: predictive means, (N,).
        std: predictive deviations, noise included, (N,).
        quantiles: at the probabilities `BANDS`, (N, 4).
        rows: the numbers of the rows in the table, counted from 1, (N,).
        table: the predictive distributions where they are not normal, else None.
    """

    observed: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    quantiles: np.ndarray
    rows: np.ndarray
    table: NumericalPredictive | None = None

    @functools.cached_property
    def below(self) -> np.ndarray:
        """Predicted probability of a value below the observed one, (N,).

        Of a count with half of its own.
        """
        from scipy.special import ndtr

        if self.table is None:
            return ndtr(self.residuals)
        found = self.table.cdf(self.observed)
        if self.table.discrete:
            found = 0.5 * (found + self.table.cdf(self.observed - 1.0))
        return found

    @functools.cached_property
    def residuals(self) -> np.ndarray:
        """Standardised residuals, (N,); 0 where a prediction claims to be certain.

        Where predictions are not normal, the normal deviates of the same probability.
        """
        from scipy.special import ndtri

        if self.table is not None:
            return ndtri(np.clip(self.below, SMALLEST, 1.0 - SMALLEST))
        difference = self.observed - self.mean
        return np.divide(difference, self.std, out=np.zeros_like(difference), where=self.std > 0)

    def coverage(self, level: float) -> float:
        """The share of rows in their central intervals."""
        if self.table is not None:
            return float(np.mean(self.table.within(self.observed, level)))
        return coverage(self.observed, self.mean, self.std, level)
