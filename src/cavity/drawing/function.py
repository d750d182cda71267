"""Pictures of a function of one input: its mean and bands, data, inducing points."""

from collections.abc import Sequence

import numpy as np

from cavity.drawing.axes import Axes
from cavity.drawing.style import ACCENT, MODEL, ink, labels, point_size

BANDS = (0.025, 0.25, 0.75, 0.975)


def bands(
    axes: Axes,
    x: np.ndarray,
    mean: np.ndarray,
    quantiles: np.ndarray,
    words: tuple[str | None, str | None] = ("95 %", "50 %"),
) -> None:
    """The predictive mean along one input with two bands, by default of 50 and 95 %.

    Args:
        axes: matplotlib's axes to draw on.
        x: places along the input, numbers or dates, (n,).
        mean: predictive means there, (n,).
        quantiles: ends of the outer band, of the inner one between them, (n, 4); by default at
            the probabilities `BANDS`.
        words: names of both bands in a legend; None for a band that is not drawn.
    """
    pairs = zip((quantiles[:, [0, 3]], quantiles[:, [1, 2]]), (0.18, 0.32), words, strict=True)
    for ends, shade, word in pairs:
        if word is not None:
            axes.fill_between(x, *ends.T, color=MODEL, alpha=shade, linewidth=0, label=word)
    axes.plot(x, mean, color=MODEL, linewidth=1.8, label="mean")
    axes.margins(x=0)


def levels(axes: Axes, names: Sequence[str], mean: np.ndarray, quantiles: np.ndarray) -> None:
    """The predictive mean at each level of a category with its 50 and 95 % intervals.

    Args:
        axes: matplotlib's axes to draw on.
        names: of the levels, n of them.
        mean: predictive means there, (n,).
        quantiles: at the probabilities `BANDS`, (n, 4).
    """
    places = np.arange(len(names))
    axes.vlines(places, *quantiles[:, [0, 3]].T, color=MODEL, alpha=0.3, linewidth=7)
    axes.vlines(places, *quantiles[:, [1, 2]].T, color=MODEL, alpha=0.5, linewidth=7)
    axes.plot(places, mean, color=MODEL, marker="o", markersize=5, linestyle="none")
    axes.set_xticks(places, labels(names, 16))
    if len(names) > 4 or sum(map(len, names)) > 20:
        axes.tick_params(axis="x", labelsize=8, rotation=40)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(names) - 0.4)


def rug(axes: Axes, x: np.ndarray) -> None:
    """Ticks along the lower edge where the data are, drawn last: within the limits of the axes.

    Args:
        axes: matplotlib's axes to draw on.
        x: places of the data, (N,).
    """
    low, high = axes.get_xlim()
    numbers = np.asarray(axes.convert_xunits(x), float)
    ticks = np.repeat(numbers[(numbers >= low) & (numbers <= high)], 3)
    heights = np.tile([0.0, 0.04, np.nan], len(ticks) // 3)
    edge = axes.get_xaxis_transform()
    axes.plot(ticks, heights, color=ink(), alpha=0.5, linewidth=0.7, transform=edge)


def data(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """The data of one input as points.

    Args:
        axes: matplotlib's axes to draw on.
        x: the input, (N,).
        y: the target, (N,).
    """
    size = point_size(len(x))
    axes.scatter(x, y, size, color=ink(), alpha=0.55, linewidths=0, zorder=3, label="data")


def inducing_points(axes: Axes, x: np.ndarray) -> None:
    """Triangles along the upper edge where the inducing points of one input are.

    Args:
        axes: matplotlib's axes to draw on.
        x: places of the points, (M,).
    """
    axes.plot(
        x,
        np.full(len(x), 0.99),
        color=ACCENT,
        marker="v",
        markersize=5 if len(x) <= 60 else 3,
        markeredgewidth=0,
        linestyle="none",
        clip_on=False,
        transform=axes.get_xaxis_transform(),
        label="inducing points",
    )


def point_gains(axes: Axes, x: np.ndarray, gain: np.ndarray) -> None:
    """The gain of one more inducing point anywhere along one input.

    Args:
        axes: matplotlib's axes to draw on.
        x: places of the point, (C,).
        gain: in nats, (C,).
    """
    axes.fill_between(x, 0.0, gain, color=MODEL, alpha=0.25, linewidth=0)
    axes.plot(x, gain, color=MODEL, linewidth=1.8)
    axes.set_ylabel("gain of one more point (nats)")
    axes.set_ylim(0.0, 1.08 * float(np.max(gain)))
    axes.margins(x=0)
