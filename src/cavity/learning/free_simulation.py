"""Forecasts of the end of a series from its beginning, compared with a linear model of lags.

The last rows are held out. The model goes back to the rows before them: its states and functions
are found from these alone, and its parameters learned on for a few iterations. From there it is
simulated freely, as is a linear model of lagged outputs and controls, and neither sees an output
of the rows that were held out. Where forecasts were too sure there, they are widened by what was
missing.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from cavity.learning.diagnostics.lagged_outputs import FARTHEST, LaggedOutputs
from cavity.learning.failures import NumericalError
from cavity.learning.initialisation.state_space import filled_in_time
from cavity.learning.plans.state_space_update import follow_states
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.numerics.text import plural

# One of so many rows is held out, and the rows that a series has at the least where some are.
SHARE, LEAST_ROWS = 5, 100
# Iterations by which parameters are learned on without the rows that are held out.
ITERATIONS = 30
# Quantiles by which forecasts are judged: the outermost are the ends of 90 % intervals.
LEVELS = np.arange(1, 20) / 20.0
# Forecasts are never narrowed, as a quiet end of a series says little of what follows it, and
# widened by this factor at the most. Against what came stand so many rows that go as they should.
MOST, AS_EXPECTED = 20.0, 10.0
# Scores that differ by less than this share are called alike.
ALIKE = 0.05
PATHS = 300


@dataclasses.dataclass(frozen=True)
class FreeSimulation:
    """The last rows of a series, simulated from the ones before them; one number per output.

    Attributes:
        rows: that were held out.
        lags: of the linear model.
        crps: continuous ranked probability scores of the model, in units of standardised outputs,
            after the widening; less is better.
        crps_lags: those of the linear model.
        coverage: shares of outputs in the 90 % intervals of the model before the widening.
        coverage_lags: those of the linear model.
        widening: what forecasts are widened by, about their means.
    """

    rows: int
    lags: int
    crps: tuple[float, ...]
    crps_lags: tuple[float, ...]
    coverage: tuple[float, ...]
    coverage_lags: tuple[float, ...]
    widening: tuple[float, ...]

    @property
    def better(self) -> str:
        """Model with the better forecasts: "model", "lags", or "alike"."""
        ratio = float(np.mean(np.log(self.crps) - np.log(self.crps_lags)))
        if abs(ratio) < np.log1p(ALIKE):
            return "alike"
        return "model" if ratio < 0.0 else "lags"

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        found = {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}
        return found | {"better": self.better}

    @property
    def message(self) -> str:
        """Summary of the comparison, in words."""
        said = {
            "model": "a linear model of lagged outputs tells them less well",
            "lags": "a linear model of lagged outputs tells them better",
            "alike": "a linear model of lagged outputs tells them about as well",
        }
        shares = " and ".join(f"{100.0 * share:.0f} %" for share in self.coverage)
        factors = " and ".join(f"{factor:.3g}" for factor in self.widening)
        wide = max(self.widening) > 1.0
        then = (
            f"forecasts are widened by {factors}" if wide else "forecasts stay as wide as they are"
        )
        pair = f"{np.mean(self.crps):.3g} to {np.mean(self.crps_lags):.3g}"
        return (
            f"simulated from the rows before them, 90 % intervals held {shares} of the last "
            f"{plural(self.rows, 'row')}, and {then}; "
            f"{said[self.better]} (CRPS {pair})"
        )


def free_simulation(
    posterior: StateSpacePosterior,
    Y: np.ndarray,
    X: np.ndarray | None = None,
    *,
    propagation: str = "paths",
    seed: int = 0,
    **options: Any,
) -> FreeSimulation | None:
    """Simulates the end of one series from its beginning; None where that has too few values.

    Args:
        posterior: of all rows.
        Y: standardised outputs (T, P), NaN where missing.
        X: controls (T, C), or None.
        propagation: of forecasts.
        seed: of paths.
        **options: of `follow_states`; `max_iterations` are those by which parameters are learned
            on without the rows that are held out, by default 30.

    Raises:
        KeyboardInterrupt: for one that ended learning.
    """
    held = len(Y) // SHARE
    before, after = Y[:-held], Y[-held:]
    seen, rows = ~np.isnan(before), LEAST_ROWS - LEAST_ROWS // SHARE
    few = np.any(np.sum(seen, axis=0) < rows) or np.sum(np.all(seen, axis=1)) < rows // 2
    if len(Y) < LEAST_ROWS or few or np.isnan(after).all(axis=0).any():
        return None
    known = np.zeros((len(Y), 0)) if X is None else np.asarray(X, float)
    options = {"max_iterations": ITERATIONS} | options
    try:
        found = follow_states(posterior, before, None if X is None else known[:-held], **options)
    except NumericalError:
        return None
    if found.interrupted:
        raise KeyboardInterrupt
    future = found.posterior.forecast(
        held,
        None if X is None else known[-held:],
        propagation=propagation,
        paths=PATHS,
        key=jax.random.key(seed),
    )
    filled = filled_in_time(before, np.zeros(len(before)))
    lags = LaggedOutputs.learn(before, filled, known[:-held])
    paths = lags.simulated(known[-held:], PATHS, seed)
    mean, deviation = np.asarray(future.mean), np.sqrt(np.asarray(future.var))
    away = (after - _finite(mean)) / _finite(deviation)
    widening = np.array([_widening(column) for column in away.T])
    mean, own = _finite(mean), _finite(np.asarray(future.quantile(LEVELS.tolist())))
    wide = mean + widening * (own - mean)
    beside = np.quantile(paths, LEVELS, axis=0)
    return FreeSimulation(
        rows=held,
        lags=lags.lags,
        crps=_crps(wide, after),
        crps_lags=_crps(beside, after),
        coverage=_coverage(own, after),
        coverage_lags=_coverage(beside, after),
        widening=_numbers(widening),
    )


def _finite(values: np.ndarray) -> np.ndarray:
    """Values of paths that may have grown without limit."""
    return np.clip(np.nan_to_num(values, nan=FARTHEST), -FARTHEST, FARTHEST)


def _widening(away: np.ndarray) -> float:
    """Factor by which forecasts were too narrow, from errors in units of their deviations.

    Errors of neighbours are alike. Squares of an autoregression of first order with correlation r
    say as much as a share (1 - r²) / (1 + r²) of independent ones, and some rows of the expected
    size are added.
    """
    seen = away[~np.isnan(away)]
    squares = np.sum(seen**2)
    r = float(np.sum(seen[1:] * seen[:-1]) / squares) if squares > 0.0 else 0.0
    count = max(1.0, len(seen) * (1.0 - r**2) / (1.0 + r**2))
    square = (AS_EXPECTED + count * np.mean(seen**2)) / (AS_EXPECTED + count)
    return float(np.clip(np.sqrt(square), 1.0, MOST))


def _crps(quantiles: np.ndarray, y: np.ndarray) -> tuple[float, ...]:
    """Continuous ranked probability scores by quantiles (L, K, P), means over steps."""
    levels = LEVELS[:, None, None]
    away = y - quantiles
    losses = np.maximum(levels * away, (levels - 1.0) * away)
    return _numbers(2.0 * np.nanmean(losses, axis=(0, 1)))


def _coverage(quantiles: np.ndarray, y: np.ndarray) -> tuple[float, ...]:
    """Shares of outputs between the outermost quantiles."""
    inside = (y >= quantiles[0]) & (y <= quantiles[-1])
    return _numbers(np.nanmean(np.where(np.isnan(y), np.nan, inside), axis=0))


def _numbers(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
