"""Sums over rows, of which metrics are made: those of two parts of a table can be added."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike


@dataclasses.dataclass(frozen=True)
class Mean:
    """A mean over rows by their weights, as two sums.

    Attributes:
        total: sum of the values times their weights.
        weight: sum of the weights.
    """

    total: float
    weight: float

    @classmethod
    def over(cls, values: ArrayLike, weights: ArrayLike | None) -> "Mean":
        """The sums of one value for each row, (N,), by weights, (N,), or each once.

        Raises:
            ValueError: if there is not one weight for each row.
        """
        values = np.asarray(values, float)
        if weights is None:
            return cls(float(np.sum(values)), float(len(values)))
        own = np.asarray(weights, float)
        if own.shape != values.shape:
            raise ValueError(
                f"there is one weight for each row: given {own.shape} for rows {values.shape}"
            )
        return cls(float(np.sum(values * own)), float(np.sum(own)))

    def __add__(self, later: "Mean") -> "Mean":
        return Mean(self.total + later.total, self.weight + later.weight)

    @property
    def value(self) -> float:
        """The mean.

        Raises:
            ZeroDivisionError: if all weights are zero.
        """
        if self.weight == 0.0:
            raise ZeroDivisionError("all weights are zero, which is no mean")
        return self.total / self.weight


@dataclasses.dataclass(frozen=True)
class Spread:
    """The variance of values around their mean, as sums.

    Attributes:
        weight: sum of the weights.
        centre: the mean of the values.
        squares: sum of the squared distances from it, by their weights.
    """

    weight: float
    centre: float
    squares: float

    @classmethod
    def over(cls, values: ArrayLike, weights: ArrayLike | None) -> "Spread":
        """The sums of one value for each row, (N,), by weights, (N,), or each once."""
        values = np.asarray(values, float)
        mean = Mean.over(values, weights)
        if np.ptp(values) > 0.0 and mean.weight > 0.0:
            centre = mean.value
        else:
            centre = float(values[0])  # to the last bit, so that the variance is zero
        return cls(mean.weight, centre, Mean.over((values - centre) ** 2, weights).total)

    def __add__(self, later: "Spread") -> "Spread":
        if not (self.weight and later.weight):
            return self if self.weight else later
        weight, apart = self.weight + later.weight, later.centre - self.centre
        share = later.weight / weight
        squares = self.squares + later.squares + apart**2 * self.weight * share
        return Spread(weight, self.centre + apart * share, squares)

    @property
    def variance(self) -> float:
        """The mean squared distance from the mean.

        Raises:
            ZeroDivisionError: if all weights are zero.
        """
        return Mean(self.squares, self.weight).value


@dataclasses.dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of an event, and the weight of rows for which it did and did not come true.

    No sum of fixed size tells how well scores rank rows: this has three numbers for each score
    that differs from all others, so up to three for each row.

    Attributes:
        scores: ascending, each once, (S,).
        true: weight of the rows with that score for which the event came true, (S,).
        false: weight of the others, (S,).
    """

    scores: np.ndarray
    true: np.ndarray
    false: np.ndarray

    @classmethod
    def merged(cls, scores: np.ndarray, true: np.ndarray, false: np.ndarray) -> "Ranking":
        """That of scores in any order, some of which may be equal, (N,) each."""
        order = np.argsort(scores, kind="stable")
        ranked = scores[order]
        first = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])[: len(ranked)])
        if len(first):
            true, false = (np.add.reduceat(a[order], first) for a in (true, false))
        return cls(ranked[first], true, false)

    def __add__(self, later: "Ranking") -> "Ranking":
        both = ((self.scores, later.scores), (self.true, later.true), (self.false, later.false))
        return Ranking.merged(*(np.concatenate(pair) for pair in both))


@dataclasses.dataclass(frozen=True, eq=False)
class Bins:
    """Probabilities of an event in bins of equal width between 0 and 1, as sums.

    Attributes:
        weight: of the rows of each bin, (B,).
        predicted: sum of their probabilities, by their weights, (B,).
        observed: weight of the rows for which it came true, (B,).
    """

    weight: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray

    @classmethod
    def over(
        cls, probability: ArrayLike, came_true: ArrayLike, bins: int, weights: ArrayLike | None
    ) -> "Bins":
        """The sums of one probability and one outcome for each row, (N,) each."""
        p, happened = np.asarray(probability, float), np.asarray(came_true, float)
        which = np.minimum((p * bins).astype(int), bins - 1)
        own = np.ones(len(p)) if weights is None else np.asarray(weights, float)
        sums = (np.bincount(which, own * a, minlength=bins) for a in (1.0, p, happened))
        return cls(*sums)

    def __add__(self, later: "Bins") -> "Bins":
        return Bins(
            self.weight + later.weight,
            self.predicted + later.predicted,
            self.observed + later.observed,
        )
