"""Periods to start from: the highest peaks of periodograms of the outputs, column by column."""

from typing import Any, NamedTuple

import numpy as np

from cavity.kernels.base import AbstractKernel
from cavity.learning.data.cycles import Cycle, cycles_of, spacing

# Rows and frequencies of a periodogram at the most, and frequencies per cycle in the data.
ROWS, FREQUENCIES, FINE = 1_000, 4_000, 4
# Peaks that are tried, and lengths of cycles of a kernel that are searched for.
PEAKS, SEARCHED = 3, 6
# Slow trends that are taken out: powers of the column up to this one.
DEGREE = 3
# Distinct values of a column below which nothing can be told.
FEWEST = 6


class Candidates(NamedTuple):
    """Periods to try for one number of a kernel.

    Attributes:
        cycle: the number.
        periods: the likeliest first, in the units of its column.
    """

    cycle: Cycle
    periods: tuple[float, ...]


def candidate_periods(
    kernel: AbstractKernel,
    X: np.ndarray,
    y: np.ndarray,
    seed: int = 0,
    weights: np.ndarray | None = None,
) -> list[Candidates]:
    """Periods to try for every length of a cycle in a kernel, clearest columns first.

    Of each column they are those of the highest three peaks of the Lomb-Scargle periodogram of
    the outputs, from which a cubic of the column and a linear function of the others were taken;
    their doubles, because waves of two bumps have a peak at half their period; and all of the
    column, as hours of a day have it. What is longer than the column shows is left out, and so is
    what is shorter than two of its short steps.

    Args:
        kernel: covariance function.
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        seed: of the rows that are looked at, where there are many.
        weights: of rows, (N,); None where all count once.

    References:
        Lomb (1976); Scargle (1982).
    """
    cycles = cycles_of(kernel, range(X.shape[1]))
    if not cycles:
        return []
    random = np.random.default_rng(seed)
    kept = np.sort(random.choice(len(X), min(ROWS, len(X)), replace=False))
    looked_at = X[kept], y[kept], None if weights is None else weights[kept]
    found = {c: _peaks(X, *looked_at, c) for c in {cycle.column for cycle in cycles}}
    order = sorted(cycles, key=lambda cycle: -found[cycle.column][1])
    known = [Candidates(cycle, found[cycle.column][0]) for cycle in order]
    return [candidates for candidates in known if candidates.periods][:SEARCHED]


def _peaks(
    X: np.ndarray, rows: np.ndarray, y: np.ndarray, weights: np.ndarray | None, column: int
) -> tuple[tuple[float, ...], float]:
    """Periods to try along a column, and the share of the variance at the highest peak."""
    from scipy.signal import find_peaks

    step, short, span, _ = spacing(X[:, column])
    if span < FEWEST * step or not step:
        return (), 0.0
    count = min(int(0.5 * FINE * span / short), FREQUENCIES)
    frequencies = np.arange(FINE, count + 1) / (FINE * span)
    power = _power(rows, y, weights, column, frequencies)
    places, _ = find_peaks(np.concatenate([[-1.0], power, [-1.0]]), distance=FINE)
    places = places - 1
    highest = places[np.argsort(-power[places], kind="stable")][:PEAKS]
    peaks = [1.0 / _vertex(frequencies, power, place) for place in highest.tolist()]
    every = [*peaks, *(2.0 * period for period in peaks), span]
    return tuple(p for p in every if p <= span), float(np.max(power))


def _power(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None,
    column: int,
    frequencies: np.ndarray,
) -> np.ndarray:
    """The share of the variance of outputs without slow trends that is at each frequency."""
    from scipy.signal import lombscargle

    x = X[:, column] - X[:, column].mean()
    others = np.delete(X, column, axis=1)
    spread = np.where(np.ptp(others, axis=0) > 0.0, np.std(others, axis=0), 1.0)
    cubic = np.polynomial.legendre.legvander(x / np.max(np.abs(x)), DEGREE)
    slow = np.column_stack([cubic, (others - others.mean(axis=0)) / spread])
    power, total = np.zeros(len(frequencies)), 0.0
    heavy = np.ones(len(X)) if weights is None else weights
    for values in y.T:
        seen = ~np.isnan(values)
        if np.sum(seen) <= slow.shape[1]:
            continue
        known, own, root = values[seen], heavy[seen], np.sqrt(heavy[seen])
        trend = np.linalg.lstsq(root[:, None] * slow[seen], root * known, rcond=None)[0]
        left = known - slow[seen] @ trend
        size = float(own @ left**2)
        if size <= 1e-20 * float(own @ known**2):
            continue
        angular: Any = 2.0 * np.pi * frequencies
        how: Any = {"normalize": True, "floating_mean": True, "weights": own}
        share = lombscargle(x[seen], left, angular, **how)
        power, total = power + size * share, total + size
    return power / total if total else power


def _vertex(frequencies: np.ndarray, power: np.ndarray, place: int) -> float:
    """The frequency of a peak between those of the grid, by a parabola."""
    if not 0 < place < len(power) - 1:
        return float(frequencies[place])
    before, at, after = power[place - 1 : place + 2]
    bend = before - 2.0 * at + after
    shift = 0.5 * (before - after) / bend if bend < 0.0 else 0.0
    return float(frequencies[place] + shift * (frequencies[1] - frequencies[0]))
