"""Distribution functions by numerical integration of a predictive density.

Each row has its own grid, dense where the mass is. The table gives quantiles, interval coverage
and the CRPS of any likelihood, accurate to about three digits, for some 500 densities per row.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from cavity.likelihoods.support import Support


@dataclasses.dataclass(frozen=True)
class NumericalSettings:
    """Settings of tables of distributions.

    Attributes:
        coarse: points of the first table, which finds the quartiles.
        fine: points of the final table.
        reach: reach of heavy-tailed tables on either side, in widths of the distribution.
        log_reach: reach of tables of logarithms and log odds, whose tails are light.
        small_counts: counts below this are all in the table.
        rounding: the error of interpolation that is no count.
        largest_log: logarithms and log odds beyond are lost in rounding.
    """

    coarse: int = 121
    fine: int = 401
    reach: float = 4_000.0
    log_reach: float = 70.0
    small_counts: int = 48
    rounding: float = 1e-6
    largest_log: float = 700.0


NUMERICAL = NumericalSettings()
# Quartiles of a normal distribution are this many deviations apart.
_QUARTILES = 1.349
# The number next to 1.
_BELOW_ONE = 1.0 - 2.0**-53


@dataclasses.dataclass(frozen=True, eq=False)
class NumericalPredictive:
    """Distribution functions of n outputs, each on a grid of T points.

    Attributes:
        grid: outputs, ascending, (T, n).
        cumulative: the probability of an output at or below each, (T, n).
        discrete: whether outputs are whole numbers.
    """

    grid: np.ndarray
    cumulative: np.ndarray
    discrete: bool

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Probability of an output of at most y, (n,)."""
        y = np.floor(y) if self.discrete else y
        values = _interpolated(y, self.grid, self.cumulative)
        return np.where(y < self.grid[0], 0.0, values) if self.discrete else values

    def within(self, y: np.ndarray, level: float) -> np.ndarray:
        """True where y lies in the central interval of a probability, ends included, (n,)."""
        low, high = 0.5 - 0.5 * level, 0.5 + 0.5 * level
        below = self.cdf(y - 1.0) if self.discrete else self.cdf(y)
        return (self.cdf(y) >= low) & (below <= high)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Quantiles at Q probabilities, (n, Q)."""
        pairs = zip(self.grid.T, self.cumulative.T, strict=True)
        return self._values(np.stack([np.interp(levels, c, p) for p, c in pairs]))

    def _values(self, between: np.ndarray) -> np.ndarray:
        """The quantiles of counts are the next whole numbers."""
        return np.ceil(between - NUMERICAL.rounding) + 0.0 if self.discrete else between

    def crps(self, y: np.ndarray) -> np.ndarray:
        r"""$\int (F(t) - [t \ge y])^2 dt$, row by row, (n,)."""
        gap = np.diff(self.grid, axis=0)
        low, high = self.cumulative[:-1], self.cumulative[1:]
        is_step = self.discrete & (gap <= 1.0)  # a step function between neighbouring counts
        under = np.where(is_step, low**2, 0.5 * (low**2 + high**2)) * gap
        above = np.where(is_step, (1 - low) ** 2, 0.5 * ((1 - low) ** 2 + (1 - high) ** 2)) * gap
        start = np.zeros((1, len(y)))
        below_y = _interpolated(y, self.grid, np.concatenate([start, np.cumsum(under, axis=0)]))
        above_total = np.concatenate([start, np.cumsum(above, axis=0)])
        beyond = np.maximum(self.grid[0] - y, 0.0) + np.maximum(y - self.grid[-1], 0.0)
        return below_y + above_total[-1] - _interpolated(y, self.grid, above_total) + beyond


def _interpolated(x: np.ndarray, grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at x, row by row, by linear interpolation."""
    rows = zip(x, grid.T, values.T, strict=True)
    return np.array([np.interp(*row) for row in rows])


def numerical_predictive(
    log_density: Callable[[np.ndarray], np.ndarray], support: Support, centre: np.ndarray
) -> NumericalPredictive:
    """Distribution functions from log densities.

    Args:
        log_density: of outputs (T, n), entry by entry.
        support: the values that outputs may take; not labels.
        centre: an output in the bulk of the distribution of each row, (n,).
    """
    to_line, from_line, log_slope = _LINES[support]
    discrete = support.discrete
    is_log = support in (Support.POSITIVE, Support.UNIT)
    reach = NUMERICAL.log_reach if is_log else NUMERICAL.reach

    def tabulate(
        middle: np.ndarray, width: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        steps = np.sinh(np.linspace(-1.0, 1.0, count) * np.arcsinh(reach))
        line = middle + width * steps[:, None]
        if discrete:
            line = _whole(line)
            return line, _counted(np.exp(log_density(line)), line)
        if is_log:
            line = np.clip(line, -NUMERICAL.largest_log, NUMERICAL.largest_log)
        y = from_line(line)
        density = np.exp(log_density(y) + log_slope(line))
        return line, _summed(np.nan_to_num(density, nan=0.0, posinf=0.0), line)

    middle = to_line(centre)
    at = np.round(middle) if discrete else middle
    height = np.exp(log_density(from_line(at)[None])[0] + log_slope(at))
    width = 0.4 / np.clip(np.nan_to_num(height, nan=1.0), 1e-300, 1e300)
    if discrete:
        width = np.clip(width, 1.0, 10.0 * (at + 1.0))
    line, cumulative = tabulate(middle, width, NUMERICAL.coarse)
    first = NumericalPredictive(line, cumulative, discrete=False)
    low, middle, high = first.quantiles(np.array([0.25, 0.5, 0.75])).T
    width = np.maximum((high - low) / _QUARTILES, 1.0 if discrete else 1e-12 * width)
    line, cumulative = tabulate(middle, width, NUMERICAL.fine)
    return NumericalPredictive(from_line(line), cumulative, discrete)


def _summed(density: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Distribution functions from densities, by the trapezoidal rule."""
    mass = 0.5 * (density[1:] + density[:-1]) * np.diff(grid, axis=0)
    total = np.concatenate([np.zeros((1, mass.shape[1])), np.cumsum(mass, axis=0)])
    return total / np.where(total[-1] > 0.0, total[-1], 1.0)


def _whole(line: np.ndarray) -> np.ndarray:
    """Counts near these points, and all small counts; some of them twice."""
    count = NUMERICAL.small_counts
    small = np.broadcast_to(np.arange(count, dtype=float)[:, None], (count, line.shape[1]))
    return np.sort(np.concatenate([small, np.maximum(np.round(line), 0.0)]), axis=0)


def _counted(mass: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Distribution functions from the probabilities of some of the counts."""
    gap = np.diff(grid, axis=0)
    # the counts between two grid points, the upper one included
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
    return np.minimum(np.exp(-np.logaddexp(0.0, -t)), _BELOW_ONE)


def _share_slope(t: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -t) - np.logaddexp(0.0, t)


# By support: the map from outputs to the line, its inverse, and the inverse's log derivative.
_LINES = {
    Support.REAL: (_same, _same, _zero),
    Support.COUNTS: (_same, _same, _zero),
    Support.POSITIVE: (np.log, np.exp, _same),
    Support.UNIT: (_odds, _share, _share_slope),
}
