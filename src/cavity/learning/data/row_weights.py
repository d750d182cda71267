"""Weights of rows, in the statistics that starting values and priors come from."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from cavity.inference.graph.rows import WEIGHT
from cavity.learning.data.scales import Scales, measure


class WeightedTable(NamedTuple):
    """Inputs and outputs of rows, each of which counts as often as its weight says.

    Attributes:
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        side: side data by name, (N,) each; weights are among them.
    """

    X: np.ndarray
    y: np.ndarray
    side: Mapping[str, np.ndarray] = MappingProxyType({})

    @property
    def weights(self) -> np.ndarray | None:
        """The weights of rows, (N,); None where all count once."""
        return weights_of(self.side)

    @property
    def presence(self) -> np.ndarray:
        """The weights of outputs, (N, P)."""
        return presence_of(self.y, self.weights)

    @property
    def count(self) -> float:
        """Rows, each as often as its weight says."""
        return len(self.X) if self.weights is None else float(np.sum(self.weights))

    @property
    def scales(self) -> Scales:
        """Location and spread of the columns."""
        return measure(self.X, np.nan_to_num(self.y), self.presence, self.weights)


def weights_of(side: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The weights among side data of rows, (N,); None where all rows count once."""
    given = side.get(WEIGHT)
    return None if given is None else np.asarray(given, float)


def presence_of(y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """The weights of outputs, (N, P): 0 where one is NaN.

    Args:
        y: outputs, (N, P), NaN where missing.
        weights: of rows, (N,); None where all rows count once.
    """
    present = (~np.isnan(y)).astype(float)
    return present if weights is None else present * weights[:, None]


def quantile(values: np.ndarray, share: float, weights: np.ndarray | None) -> np.ndarray:
    """The quantiles of columns (N, K), of so many rows as the weights say.

    Of whole weights they are those of the rows, each as often as its weight says, as
    `numpy.quantile` has them.
    """
    if weights is None:
        return np.quantile(values, share, axis=0)
    order = np.argsort(values, axis=0, kind="stable")
    heavy = weights[order]
    # the places among all rows of the first and the last of those that a row stands for
    first = np.cumsum(heavy, axis=0) - heavy
    last = first + np.maximum(heavy - 1.0, 0.0)
    place = share * max(float(np.sum(weights)) - 1.0, 0.0)
    ordered = np.take_along_axis(values, order, axis=0)
    columns = zip(first.T, last.T, ordered.T, strict=True)
    found = [np.interp(place, _turn(a, b), np.repeat(v, 2)) for a, b, v in columns]
    return np.array(found)


def _turn(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Numbers of two arrays in turn."""
    return np.column_stack([first, last]).ravel()
