"""Pictures of named quantities: relevances, and coefficients with intervals."""

from collections.abc import Sequence

import numpy as np

from cavity.drawing.axes import Axes
from cavity.drawing.style import DASHES, FAINT, MODEL

MOST_NAMES = 30  # bars of a relevance plot


def relevance(axes: Axes, names: Sequence[str], values: np.ndarray) -> None:
    """Bars of relevance, the largest on top, at most `MOST_NAMES` of them.

    Args:
        axes: matplotlib's axes to draw on.
        names: of D inputs.
        values: their relevance, (D,).
    """
    order = np.argsort(-values, kind="stable")[:MOST_NAMES]
    places = np.arange(len(order))
    axes.barh(places, values[order], height=0.7, color=MODEL, alpha=0.75, linewidth=0)
    _named(axes, [names[i] for i in map(int, order)])


def coefficients(
    axes: Axes,
    names: Sequence[str],
    mean: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    selected: np.ndarray,
) -> None:
    """A dot and an interval for each coefficient, from the top down; selected ones in colour.

    Args:
        axes: matplotlib's axes to draw on.
        names: of D columns.
        mean: their coefficients, (D,).
        lower: lower ends of intervals, (D,).
        upper: upper ends, (D,).
        selected: which have a colour, truth values, (D,).
    """
    places = np.arange(len(names))
    axes.axvline(0.0, color=FAINT, linewidth=1.0, linestyle=DASHES)
    for some, colour in ((~selected, FAINT), (selected, MODEL)):
        axes.hlines(places[some], lower[some], upper[some], color=colour, linewidth=2.0)
        axes.plot(mean[some], places[some], "o", color=colour, markersize=5)
    _named(axes, names)


def _named(axes: Axes, names: Sequence[str]) -> None:
    """Names on the left, from the top down."""
    axes.set_yticks(np.arange(len(names)), names)
    axes.set(ylim=(len(names) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)
