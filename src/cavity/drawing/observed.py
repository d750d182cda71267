"""Pictures of predictions against what was observed."""

import numpy as np

from cavity.drawing.axes import Axes
from cavity.drawing.style import DASHES, FAINT, MODEL, ink, legend_above, point_size

MOST_BARS = 150  # error bars are drawn up to here
MOST_POINTS = 1_500  # points are drawn one by one up to here, and as a density beyond


def predictions(
    axes: Axes, observed: np.ndarray, mean: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> None:
    """Predicted against observed: with error bars for few rows, as a density for many.

    Args:
        axes: matplotlib's axes to draw on.
        observed: targets, (N,).
        mean: predictive means, (N,).
        lower: lower ends of predictive intervals, (N,).
        upper: upper ends, (N,).
    """
    low, high = _range(np.concatenate([observed, mean]))
    line = {"linewidth": 1, "linestyle": DASHES, "zorder": 3, "label": "exact"}
    axes.plot([low, high], [low, high], color=ink(), **line)
    if len(mean) <= MOST_BARS and not np.all(np.isnan(lower)):
        bars = {"alpha": 0.35, "linewidth": 1, "label": "95 % of new values"}
        axes.vlines(observed, lower, upper, color=MODEL, **bars)
    _cloud(axes, observed, mean)
    axes.set(xlabel="observed", ylabel="predicted")


def residuals(axes: Axes, mean: np.ndarray, standardised: np.ndarray) -> None:
    """Standardised residuals against predictions.

    Args:
        axes: matplotlib's axes to draw on.
        mean: predictive means, (N,).
        standardised: observed minus predicted over the predictive deviation of each row, (N,).
    """
    for height, word in ((-1.96, None), (1.96, "should hold 95 %")):
        axes.axhline(height, color=FAINT, linewidth=1, linestyle=DASHES, label=word)
    axes.axhline(0.0, color=ink(), linewidth=1, linestyle=DASHES)
    _cloud(axes, mean, standardised)
    reach = max(3.5, 1.05 * float(np.max(np.abs(standardised))))
    axes.set(ylim=(-reach, reach), xlabel="predicted", ylabel="standardised residual")


def residual_histogram(axes: Axes, standardised: np.ndarray, reach: float = 5.0) -> None:
    """Histogram of standardised residuals, lying, beside the standard normal density.

    Args:
        axes: matplotlib's axes to draw on.
        standardised: observed minus predicted over the predictive deviation of each row, (N,).
        reach: residuals beyond are counted in the outermost bars.
    """
    bins = int(np.clip(np.sqrt(len(standardised)), 8, 40))
    edges = np.linspace(-reach, reach, bins + 1)
    inside = np.clip(standardised, -reach, reach)
    share = np.histogram(inside, edges)[0] / (len(standardised) * (edges[1] - edges[0]))
    axes.barh(edges[:-1], share, np.diff(edges), align="edge", color=MODEL, alpha=0.6, linewidth=0)
    z = np.linspace(-reach, reach, 200)
    normal = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    axes.plot(normal, z, color=ink(), linewidth=1.2, label="standard normal")
    axes.set(ylim=(-reach, reach), xlabel="density", ylabel="standardised residual")
    legend_above(axes)


def _cloud(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Points, or the density of many."""
    if len(x) <= MOST_POINTS:
        axes.scatter(x, y, point_size(len(x)), color=MODEL, alpha=0.65, linewidths=0)
        return
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    middle = ListedColormap(colormaps["viridis"](np.linspace(0.2, 0.95, 64)))
    cells = axes.hexbin(x, y, gridsize=48, mincnt=1, cmap=middle, bins="log", linewidths=0)
    cells.set(rasterized=True, antialiased=False)


def _range(values: np.ndarray) -> tuple[float, float]:
    """Axis limits of some values with a margin, distinct even if all values are the same."""
    low, high = float(np.min(values)), float(np.max(values))
    room = 0.03 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room
