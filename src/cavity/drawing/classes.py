"""Pictures of the probabilities of classes."""

from collections.abc import Sequence

import numpy as np

from cavity.drawing.axes import Axes
from cavity.drawing.style import COLOURS, DASHES, FAINT, MODEL, ink, legend_above


def reliability(
    axes: Axes,
    predicted: np.ndarray,
    observed: np.ndarray,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
) -> None:
    """Observed shares against predicted probabilities, bin by bin.

    Args:
        axes: matplotlib's axes to draw on.
        predicted: mean probability of each bin, (B,).
        observed: the share of its rows for which it came true, (B,).
        lower: the shares between which chance alone leaves a calibrated model, (B,); None for
            no bars.
        upper: the upper end of these, (B,).
    """
    axes.plot([0, 1], [0, 1], color=ink(), linewidth=1, linestyle=DASHES, label="ideal")
    if lower is not None and upper is not None:
        label = "chance alone (95 %)"
        axes.vlines(predicted, lower, upper, color=FAINT, alpha=0.45, linewidth=8, label=label)
    axes.plot(predicted, observed, "o", color=MODEL, markersize=6, label="this model")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.set(xlabel="predicted probability", ylabel="share of rows where it came true")


def class_areas(axes: Axes, x: np.ndarray, shares: np.ndarray, names: Sequence[str]) -> None:
    """Probabilities of classes along one input, as areas upon each other.

    Args:
        axes: matplotlib's axes to draw on.
        x: places along the input, numbers or dates, (n,).
        shares: probabilities, (n, C).
        names: of the C classes.
    """
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(names))]
    axes.stackplot(x, shares.T, labels=names, colors=colours, alpha=0.75, linewidth=0)
    axes.set(xlim=(x[0], x[-1]), ylim=(0, 1))


def class_bars(
    axes: Axes, levels: Sequence[str], shares: np.ndarray, names: Sequence[str]
) -> None:
    """Probabilities of classes at each level of a category, as bars upon each other.

    Args:
        axes: matplotlib's axes to draw on.
        levels: names of the levels, n of them.
        shares: probabilities, (n, C).
        names: of the C classes.
    """
    floor = np.zeros(len(shares))
    for i, (share, name) in enumerate(zip(shares.T, names, strict=True)):
        colour = COLOURS[i % len(COLOURS)]
        axes.bar(levels, share, bottom=floor, label=name, color=colour, alpha=0.75)
        floor = floor + share
    axes.tick_params(axis="x", rotation=30)
    axes.set(ylim=(0, 1))


def class_histograms(
    axes: Axes, probabilities: np.ndarray, came_true: np.ndarray, names: Sequence[str]
) -> None:
    """Histograms of the probability of a class: upwards of its rows, downwards of the others.

    Args:
        axes: matplotlib's axes to draw on.
        probabilities: of the class, (N,).
        came_true: whether a row is of it, (N,).
        names: of the others, and of the class.
    """
    edges = np.linspace(0, 1, 21)
    for truth, colour, sign in ((True, MODEL, 1.0), (False, FAINT, -1.0)):
        count = np.histogram(probabilities[came_true == truth], edges)[0]
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
    axes.axhline(0.0, color=ink(), linewidth=1)
    axes.set(xlim=(0, 1), xlabel="predicted probability", ylabel="rows, by their true class")
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    axes.locator_params(axis="y", integer=True)
    legend_above(axes)


def confusion(axes: Axes, counts: np.ndarray, names: Sequence[str]) -> None:
    """The confusion matrix, shaded by the share of each class.

    Args:
        axes: matplotlib's axes to draw on.
        counts: rows by true class, down, and by predicted class, across, (C, C).
        names: of the C classes.
    """
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
        axes.text(j, i, text, ha="center", va="center", fontsize=size, color=ink())
    places = np.arange(len(names))
    axes.set_xticks(places, names, rotation=0 if len(names) <= 6 else 90)
    axes.set_yticks(places, names)
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5), aspect="equal")
    axes.set(xlabel="predicted class", ylabel="true class")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def roc(
    axes: Axes,
    false_positive: np.ndarray,
    true_positive: np.ndarray,
    area: float | None = None,
) -> None:
    """The receiver operating characteristic, from rates as the threshold falls.

    Args:
        axes: matplotlib's axes to draw on.
        false_positive: the share of the others that are taken for the class, ascending, (T,).
        true_positive: the share of its rows that are found, (T,).
        area: under the curve, for the legend; None for none there.
    """
    axes.plot([0, 1], [0, 1], color=ink(), linewidth=1, linestyle=DASHES, label="guessing")
    axes.fill_between(false_positive, 0.0, true_positive, color=MODEL, alpha=0.15, linewidth=0)
    label = "this model" if area is None else f"this model, area {area:.3f}"
    axes.plot(false_positive, true_positive, color=MODEL, linewidth=2, label=label)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    axes.set(xlabel="share of the others taken for it", ylabel="share of its rows found")
    legend_above(axes)
