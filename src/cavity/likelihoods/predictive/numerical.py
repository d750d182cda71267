r"""Distributions of outputs as tables, from nothing but their log densities.

A table has the distribution function of every row on places of its own, dense where the mass is.
From it follow quantiles, interval coverage and scores at the price of some hundred densities a
row, for any likelihood; accurate to about three digits.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from cavity.likelihoods.support import Support

# Places of a first look and of the table, and how many widths to either side they reach:
# far on the line, where tails may be heavy, less far for logarithms and log odds.
FIRST, PLACES = 121, 401
REACH = {Support.REAL: 4_000.0, Support.POSITIVE: 70.0, Support.UNIT: 70.0, Support.COUNTS: 4e3}
# Counts below this are all in the table.
SMALL_COUNTS = 48
# Quartiles of a normal distribution are this many deviations apart.
QUARTILES = 1.349
# What interpolation may add to a whole number.
ROUNDING = 1e-6
# Logarithms and log odds beyond are lost in rounding.
LARGEST = 700.0
# The share next to 1.
BELOW_ONE = 1.0 - 2.0**-53


@dataclasses.dataclass(frozen=True, eq=False)
class NumericalPredictive:
    """Distributions of n outputs, each on T places.

    Attributes:
        places: outputs, ascending, (T, n).
        cumulative: the probability of an output at or below each, (T, n).
        discrete: whether outputs are whole numbers.
    """

    places: np.ndarray
    cumulative: np.ndarray
    discrete: bool

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Probability of an output of at most y, (n,)."""
        y = np.floor(y) if self.discrete else y
        found = _between(y, self.places, self.cumulative)
        return np.where(y < self.places[0], 0.0, found) if self.discrete else found

    def within(self, y: np.ndarray, level: float) -> np.ndarray:
        """Whether y lies in the central interval of a probability, ends included, (n,)."""
        low, high = 0.5 - 0.5 * level, 0.5 + 0.5 * level
        below = self.cdf(y - 1.0) if self.discrete else self.cdf(y)
        return (self.cdf(y) >= low) & (below <= high)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Quantiles at Q probabilities, (n, Q)."""
        pairs = zip(self.places.T, self.cumulative.T, strict=True)
        return self._values(np.stack([np.interp(levels, c, p) for p, c in pairs]))

    def _values(self, between: np.ndarray) -> np.ndarray:
        """Of whole numbers the next above."""
        return np.ceil(between - ROUNDING) + 0.0 if self.discrete else between

    def crps(self, y: np.ndarray) -> np.ndarray:
        r"""$\int (F(t) - [t \ge y])^2 dt$, row by row, (n,)."""
        gap = np.diff(self.places, axis=0)
        low, high = self.cumulative[:-1], self.cumulative[1:]
        whole = self.discrete & (gap <= 1.0)  # a step function between neighbouring counts
        under = np.where(whole, low**2, 0.5 * (low**2 + high**2)) * gap
        above = np.where(whole, (1 - low) ** 2, 0.5 * ((1 - low) ** 2 + (1 - high) ** 2)) * gap
        start = np.zeros((1, len(y)))
        before = _between(y, self.places, np.concatenate([start, np.cumsum(under, axis=0)]))
        left = np.concatenate([start, np.cumsum(above, axis=0)])
        beyond = np.maximum(self.places[0] - y, 0.0) + np.maximum(y - self.places[-1], 0.0)
        return before + left[-1] - _between(y, self.places, left) + beyond


def _between(x: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at x, row by row, by linear interpolation."""
    rows = zip(x, places.T, values.T, strict=True)
    return np.array([np.interp(*row) for row in rows])


def numerical_predictive(
    log_density: Callable[[np.ndarray], np.ndarray], support: Support, centre: np.ndarray
) -> NumericalPredictive:
    """The table of a distribution.

    Args:
        log_density: of outputs (T, n), entry by entry.
        support: what outputs may be; not labels.
        centre: an output that is not far out in the distribution of each row, (n,).
    """
    to_line, from_line, log_slope = _LINES[support]
    discrete = support.discrete

    def look(middle: np.ndarray, width: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        steps = np.sinh(np.linspace(-1.0, 1.0, count) * np.arcsinh(REACH[support]))
        line = middle + width * steps[:, None]
        if discrete:
            line = _whole(line)
            return line, _counted(np.exp(log_density(line)), line)
        line = np.clip(line, -LARGEST, LARGEST) if support is not Support.REAL else line
        y = from_line(line)
        density = np.exp(log_density(y) + log_slope(line))
        return line, _summed(np.nan_to_num(density, nan=0.0, posinf=0.0), line)

    middle = to_line(centre)
    at = np.round(middle) if discrete else middle
    height = np.exp(log_density(from_line(at)[None])[0] + log_slope(at))
    width = 0.4 / np.clip(np.nan_to_num(height, nan=1.0), 1e-300, 1e300)
    if discrete:
        width = np.clip(width, 1.0, 10.0 * (at + 1.0))
    line, cumulative = look(middle, width, FIRST)
    first = NumericalPredictive(line, cumulative, discrete=False)
    low, middle, high = first.quantiles(np.array([0.25, 0.5, 0.75])).T
    width = np.maximum((high - low) / QUARTILES, 1.0 if discrete else 1e-12 * width)
    line, cumulative = look(middle, width, PLACES)
    return NumericalPredictive(from_line(line), cumulative, discrete)


def _summed(density: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Distribution functions from densities, by the trapezoidal rule."""
    mass = 0.5 * (density[1:] + density[:-1]) * np.diff(places, axis=0)
    total = np.concatenate([np.zeros((1, mass.shape[1])), np.cumsum(mass, axis=0)])
    return total / np.where(total[-1] > 0.0, total[-1], 1.0)


def _whole(line: np.ndarray) -> np.ndarray:
    """Counts near these places, and the small ones; some are there twice."""
    small = np.broadcast_to(
        np.arange(SMALL_COUNTS, dtype=float)[:, None], (SMALL_COUNTS, line.shape[1])
    )
    return np.sort(np.concatenate([small, np.maximum(np.round(line), 0.0)]), axis=0)


def _counted(mass: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Distribution functions from the probabilities of some of the counts."""
    gap = np.diff(places, axis=0)
    # the counts after one place up to the next: the next one alone where they are neighbours
    step = 0.5 * (mass[1:] + mass[:-1]) * gap + 0.5 * (mass[1:] - mass[:-1]) * (gap > 0.0)
    total = mass[:1] + np.concatenate([np.zeros((1, mass.shape[1])), np.cumsum(step, axis=0)])
    return total / np.where(total[-1] > 0.0, total[-1], 1.0)


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _zero(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


def _odds(y: np.ndarray) -> np.ndarray:
    return np.log(y) - np.log1p(-y)


def _share(t: np.ndarray) -> np.ndarray:
    return np.minimum(np.exp(-np.logaddexp(0.0, -t)), BELOW_ONE)


def _share_slope(t: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -t) - np.logaddexp(0.0, t)


# Of each support: from outputs to the line, back, and the logarithm of the slope of the way back.
_LINES = {
    Support.REAL: (_same, _same, _zero),
    Support.COUNTS: (_same, _same, _zero),
    Support.POSITIVE: (np.log, np.exp, _same),
    Support.UNIT: (_odds, _share, _share_slope),
}
