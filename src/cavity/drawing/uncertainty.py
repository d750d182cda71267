"""Pictures of how far stated uncertainties are right."""

import numpy as np

from cavity.drawing.axes import Axes
from cavity.drawing.style import DASHES, FAINT, MODEL, ink, legend_above


def calibration(
    axes: Axes,
    levels: np.ndarray,
    observed: np.ndarray,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
) -> None:
    """Observed against nominal coverage of central intervals.

    Args:
        axes: matplotlib's axes to draw on.
        levels: nominal coverage of the intervals, (L,).
        observed: the share of rows inside each, (L,).
        lower: the shares between which chance alone leaves a calibrated model, (L,); None for
            no band.
        upper: the upper end of these, (L,).
    """
    if lower is not None and upper is not None:
        axes.fill_between(
            levels, lower, upper, color=FAINT, alpha=0.25, linewidth=0, label="chance alone (95 %)"
        )
    axes.plot([0, 1], [0, 1], color=ink(), linewidth=1, linestyle=DASHES, label="ideal")
    axes.plot(levels, observed, color=MODEL, linewidth=2, label="this model")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
    axes.set(xlabel="nominal coverage of the interval", ylabel="share of rows inside")
    legend_above(axes)


def probability_transform(axes: Axes, values: np.ndarray, bins: int = 10) -> None:
    """Histogram of the predicted probabilities of a value below the observed one.

    Args:
        axes: matplotlib's axes to draw on.
        values: the probabilities, (N,).
        bins: of the histogram.
    """
    edges = np.linspace(0, 1, bins + 1)
    share = np.histogram(values, edges)[0] * bins / len(values)
    axes.bar(edges[:-1], share, 1 / bins, align="edge", color=MODEL, alpha=0.6, linewidth=0)
    axes.axhline(1.0, color=ink(), linewidth=1, linestyle=DASHES)
    axes.set(xlim=(0, 1), xlabel="predicted probability below the observed", ylabel="density")
