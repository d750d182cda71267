"""Pictures of the probabilities of classes, from plain arrays; `plots` says how they are drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.learning.metrics.classification import Reliability, Roc
from cavity.report.plots import DASHES, FAINT, INK, MODEL, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any

# Okabe and Ito's colours, for classes.
_CLASSES = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#f0e442",
    "#8c959f",
)


def draw_reliability(axes: Axes, found: Reliability, lower: np.ndarray, upper: np.ndarray) -> None:
    """Observed shares against predicted probabilities, bin by bin."""
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=DASHES, label="ideal")
    where = found.predicted
    label = "chance alone (95 %)"
    axes.vlines(where, lower, upper, color=FAINT, alpha=0.45, linewidth=8, label=label)
    axes.plot(where, found.observed, "o", color=MODEL, markersize=6, label="this model")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.set(xlabel="predicted probability", ylabel="share of rows where it came true")


def draw_shares(
    axes: Axes, places: Any, shares: np.ndarray, names: Sequence[str], label: str
) -> None:
    """Probabilities of classes that add up to one, as areas or as bars upon each other."""
    colours = [_CLASSES[i % len(_CLASSES)] for i in range(len(names))]
    if isinstance(places, np.ndarray):
        axes.stackplot(places, shares.T, labels=names, colors=colours, alpha=0.75, linewidth=0)
        axes.set(xlim=(places[0], places[-1]))
    else:
        floor = np.zeros(len(shares))
        for share, name, colour in zip(shares.T, names, colours, strict=True):
            axes.bar(places, share, bottom=floor, label=name, color=colour, alpha=0.75)
            floor = floor + share
        axes.tick_params(axis="x", rotation=30)
    axes.set(ylim=(0, 1), xlabel=label)


def draw_chances(
    axes: Axes, chance: np.ndarray, came_true: np.ndarray, names: Sequence[str]
) -> None:
    """Histograms of the probability of a class, apart for rows that are of it and that are not."""
    edges = np.linspace(0, 1, 21)
    for truth, colour, sign in ((True, MODEL, 1.0), (False, FAINT, -1.0)):
        count = np.histogram(chance[came_true == truth], edges)[0]
        axes.bar(
            edges[:-1],
            sign * count,
            1 / 20,
            align="edge",
            color=colour,
            alpha=0.7,
            linewidth=0,
            label=names[int(truth)],
        )
    axes.axhline(0.0, color=INK, linewidth=1)
    axes.set(xlim=(0, 1), xlabel="predicted probability", ylabel="rows, by their true class")
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    axes.locator_params(axis="y", integer=True)
    legend_above(axes)


def draw_confusion(axes: Axes, counts: np.ndarray, names: Sequence[str]) -> None:
    """Draw the confusion matrix, shaded by the share of each class."""
    total = counts.sum(axis=1, keepdims=True)
    share = counts / np.where(total > 0, total, 1)
    for (i, j), value in np.ndenumerate(share):
        axes.fill_between(
            [j - 0.48, j + 0.48],
            i - 0.48,
            i + 0.48,
            color=MODEL,
            alpha=0.08 + 0.47 * value,
            linewidth=0,
        )
        text = f"{counts[i, j]:,}\n{100 * value:.0f} %"
        size = 11 if len(names) <= 6 else 8
        axes.text(j, i, text, ha="center", va="center", fontsize=size, color=INK)
    places = np.arange(len(names))
    axes.set_xticks(places, names, rotation=0 if len(names) <= 6 else 90)
    axes.set_yticks(places, names)
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5), aspect="equal")
    axes.set(xlabel="predicted class", ylabel="true class")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def draw_roc(axes: Axes, found: Roc) -> None:
    """The receiver operating characteristic."""
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=DASHES, label="guessing")
    false, true = found.false_positive, found.true_positive
    axes.fill_between(false, 0.0, true, color=MODEL, alpha=0.15, linewidth=0)
    axes.plot(false, true, color=MODEL, linewidth=2, label=f"this model, area {found.area:.3f}")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    axes.set(xlabel="share of the others taken for it", ylabel="share of its rows found")
    legend_above(axes)
