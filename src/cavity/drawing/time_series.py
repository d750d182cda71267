"""Pictures of time series: forecasts, hidden states, and how these move."""

import numpy as np

from cavity.drawing.axes import Axes
from cavity.drawing.function import bands, rug
from cavity.drawing.style import ACCENT, DASHES, FAINT, MODEL, label, legend_above


def forecast(
    axes: Axes,
    steps: np.ndarray,
    mean: np.ndarray,
    quantiles: np.ndarray,
    observed: np.ndarray | None = None,
    name: str = "",
) -> None:
    """An output over time with its bands, and what was observed.

    Args:
        axes: matplotlib's axes to draw on.
        steps: times, (n,).
        mean: of every step, (n,).
        quantiles: at the probabilities `BANDS`, (n, 4).
        observed: the outputs, (n,), NaN where there is none; None for none.
        name: of the output.
    """
    bands(axes, steps, mean, quantiles)
    if observed is not None and not np.all(np.isnan(observed)):
        axes.plot(steps, observed, ".", color=ACCENT, markersize=4, label="observed")
    axes.set_ylabel(label(name))
    legend_above(axes)


def states(
    axes: Axes, mean: np.ndarray, std: np.ndarray, starts: np.ndarray | None = None
) -> None:
    """Hidden states from row to row: one along time, or the first two against each other.

    Args:
        axes: matplotlib's axes to draw on.
        mean: of the states, (N, S).
        std: their deviations, (N, S).
        starts: the rows at which further series start; None for one series.
    """
    line = _apart(mean, starts)
    if mean.shape[1] > 1:
        axes.plot(line[:, 0], line[:, 1], color=MODEL, linewidth=0.9)
        axes.plot(*mean[-1, :2], "o", color=ACCENT, label="last row")
        axes.set(xlabel="state 1", ylabel="state 2")
        axes.legend()
        return
    time = _apart(np.arange(1.0, len(mean) + 1.0)[:, None], starts)[:, 0]
    _with_deviations(axes, time, line[:, 0], _apart(std, starts)[:, 0])
    axes.set(xlabel="row of the fit", ylabel="state")
    axes.margins(x=0)


def transition(
    axes: Axes, state: np.ndarray, mean: np.ndarray, std: np.ndarray, visited: np.ndarray
) -> None:
    """The next state as a function of the only one.

    Args:
        axes: matplotlib's axes to draw on.
        state: places of the state, (n,).
        mean: of the next state, (n,).
        std: its deviations, (n,).
        visited: states of the rows of a fit, (N,).
    """
    _with_deviations(axes, state, mean, std, name="next state")
    axes.plot(state, state, color=FAINT, linestyle=DASHES, label="no change")
    rug(axes, visited)
    axes.set(xlabel="state", ylabel="state of the next row")
    legend_above(axes)


def moves(
    axes: Axes,
    places: np.ndarray,
    steps: np.ndarray,
    visited: np.ndarray,
    starts: np.ndarray | None = None,
) -> None:
    """Arrows from places of two states to where they are expected next.

    Args:
        axes: matplotlib's axes to draw on.
        places: of both states, (n, 2).
        steps: the next states less these, (n, 2).
        visited: states of the rows of a fit, (N, S), of which a line shows the first two.
        starts: the rows at which further series start; None for one series.
    """
    line = _apart(visited, starts)
    axes.plot(line[:, 0], line[:, 1], color=FAINT, linewidth=0.6, alpha=0.7)
    axes.quiver(*places.T, *steps.T, color=MODEL, angles="xy", width=0.003)
    axes.set(xlabel="state 1", ylabel="state 2")


def _with_deviations(
    axes: Axes, x: np.ndarray, mean: np.ndarray, std: np.ndarray, name: str | None = None
) -> None:
    """A line, and two standard deviations to each side."""
    axes.fill_between(x, mean - 2 * std, mean + 2 * std, color=MODEL, alpha=0.25, linewidth=0)
    axes.plot(x, mean, color=MODEL, label=name)


def _apart(path: np.ndarray, starts: np.ndarray | None) -> np.ndarray:
    """States with a row of NaN in front of every further series, so that no line joins two."""
    return path if starts is None else np.insert(path, starts, np.nan, axis=0)
