"""Pictures of the rows of a table in a latent space."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.drawing.axes import Axes
from cavity.drawing.style import COLOURS, FAINT, MODEL, label, legend_above

MOST_DEVIATIONS = 300  # rows up to which bars show their deviations


def embedding(
    axes: Axes,
    mean: np.ndarray,
    std: np.ndarray | None = None,
    colour: Sequence[Any] | None = None,
    name: str = "",
) -> None:
    """Rows at their first two latent dimensions, or along the only one by their rank.

    Args:
        axes: matplotlib's axes to draw on.
        mean: latent points, (N, Q).
        std: their deviations, (N, Q), drawn as bars for up to `MOST_DEVIATIONS` rows; None for
            no bars.
        colour: numbers or texts of the N rows, which colour them, None where missing; None for
            one colour.
        name: of what colours them.
    """
    spread = np.zeros_like(mean) if std is None else std
    if mean.shape[1] == 1:
        rank = np.argsort(np.argsort(mean[:, 0])) + 1.0
        points = np.column_stack([mean[:, 0], rank])
        bars = np.column_stack([spread[:, 0], np.zeros(len(mean))])
        axes.set(xlabel="dimension 1", ylabel="rank")
    else:
        points, bars = mean[:, :2], spread[:, :2]
        axes.set(xlabel="dimension 1", ylabel="dimension 2")
    if np.any(bars) and len(points) <= MOST_DEVIATIONS:
        x, y = points.T
        axes.hlines(y, x - bars[:, 0], x + bars[:, 0], color=FAINT, alpha=0.5, lw=0.8)
        axes.vlines(x, y - bars[:, 1], y + bars[:, 1], color=FAINT, alpha=0.5, lw=0.8)
    _coloured(axes, points, colour, name)


def _coloured(axes: Axes, points: np.ndarray, colour: Sequence[Any] | None, name: str) -> None:
    """Points in the colours of a column: a scale for numbers, a colour for each text."""
    size = float(np.clip(6000 / len(points), 6, 26))
    style: dict[str, Any] = {"s": size, "linewidths": 0.3, "edgecolors": "white", "zorder": 3}
    if colour is None:
        axes.scatter(*points.T, color=MODEL, **style)
        return
    present = [value for value in colour if value is not None]
    missing = np.array([value is None for value in colour])
    if np.any(missing):
        axes.scatter(*points[missing].T, color=FAINT, label="missing", **style)
    if not any(isinstance(value, str) for value in present):
        values = np.array(present, float)
        drawn = axes.scatter(*points[~missing].T, c=values, cmap="viridis", **style)
        bar = axes.figure.colorbar(drawn, ax=axes)
        bar.set_label(label(name))
        bar.outline.set_visible(False)
        return
    texts = sorted(set(present), key=lambda text: (-present.count(text), text))
    for i, text in enumerate(texts):
        among = np.array([value == text for value in colour])
        last = i >= len(COLOURS) - 1 and len(texts) > len(COLOURS)
        shown = "others" if last and i == len(COLOURS) - 1 else None if last else label(text)
        shade = COLOURS[min(i, len(COLOURS) - 1)]
        axes.scatter(*points[among].T, color=shade, label=shown, **style)
    legend_above(axes)
