"""Pictures of a latent space: its dimensions, and the rows in it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.estimators.latent_map import Gaussians
from cavity.report import plots
from cavity.report.figures import Picture, thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = Any

# Rows of a map, and rows with bars for their deviations.
MOST_ROWS, MOST_BARS = 3_000, 300
# Texts that have a colour each; Okabe and Ito's colours.
COLOURS = (
    *(plots.MODEL, plots.ACCENT, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442"),
    *("#7f3b08", "#542788", "#8c959f"),
)


def relevance(shares: np.ndarray) -> Picture:
    """The shares of the latent dimensions in the variation of the columns."""
    names = [f"dimension {i}" for i in range(1, len(shares) + 1)]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        plots.draw_relevance(axes, names, 100.0 * shares)
        axes.set(xlabel="relevance, %", xlim=(0.0, None))

    listed = ", ".join(f"{100 * share:.0f} %" for share in shares[:5])
    return Picture(
        "latent_relevance",
        "Relevance of the latent dimensions",
        f"Bars of the relevance of {len(shares)} latent dimensions: {listed}.",
        "How far the columns move, in mean square, where rows exchange their positions along one "
        "dimension, as a share of the sum over dimensions. A dimension next to zero is not "
        "needed; where none is, more dimensions may be worth trying.",
        plots.picture(draw, width=6.0, height=0.8 + 0.32 * min(len(shares), plots.MOST_NAMES)),
    )


def latent_map(
    latent: Gaussians, colour: Sequence[Any] | None, name: str | None, rows: int
) -> Picture:
    """The rows at the two most relevant latent dimensions, with deviations.

    Args:
        latent: the latent points, (n, Q).
        colour: numbers or texts of the rows, which colour them; None for one colour.
        name: the name of the column of colours.
        rows: rows of the table.
    """
    chosen = thinned(len(latent.mean), MOST_ROWS)
    mean, std = latent.mean[chosen], latent.std[chosen]
    shown = None if colour is None else [colour[i] for i in chosen]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if mean.shape[1] == 1:
            order = np.argsort(mean[:, 0])
            points = np.column_stack([mean[:, 0], np.argsort(order) + 1.0])
            bars = np.column_stack([std[:, 0], np.zeros(len(std))])
            labels = ("dimension 1", "rank")
        else:
            points, bars, labels = mean[:, :2], std[:, :2], ("dimension 1", "dimension 2")
        if len(points) <= MOST_BARS:
            x, y = points.T
            axes.hlines(y, x - bars[:, 0], x + bars[:, 0], color=plots.FAINT, alpha=0.5, lw=0.8)
            axes.vlines(x, y - bars[:, 1], y + bars[:, 1], color=plots.FAINT, alpha=0.5, lw=0.8)
        _coloured(figure, axes, points, shown, name)
        axes.set(xlabel=labels[0], ylabel=labels[1])

    by = f", coloured by {name}" if name is not None else ""
    few = len(chosen) <= MOST_BARS
    parts = [
        "Each point is a row of the table at its posterior mean; rows that are alike in all "
        "columns lie close together.",
        "Bars are a posterior standard deviation to each side." if few else "",
        "All rows are standard normal a priori, so long bars mean rows that their columns say "
        "little of."
        if few
        else "",
        f"{len(chosen):,} of {rows:,} rows are shown." if len(chosen) < rows else "",
        "The signs of dimensions mean nothing.",
    ]
    return Picture(
        "latent_map",
        "The map",
        f"The rows of the table at the two most relevant latent dimensions{by}.",
        " ".join(part for part in parts if part),
        plots.picture(draw, width=7.2, height=5.6),
    )


def _coloured(
    figure: Figure, axes: Axes, points: np.ndarray, colour: list[Any] | None, name: str | None
) -> None:
    """Points in the colours of a column: a scale for numbers, a colour for each text."""
    size = float(np.clip(6000 / len(points), 6, 26))
    style: dict[str, Any] = {"s": size, "linewidths": 0.3, "edgecolors": "white", "zorder": 3}
    if colour is None:
        axes.scatter(*points.T, color=plots.MODEL, **style)
        return
    present = [value for value in colour if value is not None]
    missing = np.array([value is None for value in colour])
    if np.any(missing):
        axes.scatter(*points[missing].T, color=plots.FAINT, label="missing", **style)
    if all(isinstance(value, float) for value in present):
        values = np.array(present)
        drawn = axes.scatter(*points[~missing].T, c=values, cmap="viridis", **style)
        bar = figure.colorbar(drawn, ax=axes)
        bar.set_label(plots.label(str(name)))
        bar.outline.set_visible(False)
        return
    texts = sorted(set(present), key=lambda text: (-present.count(text), text))
    for i, text in enumerate(texts):
        among = np.array([value == text for value in colour])
        last = i >= len(COLOURS) - 1 and len(texts) > len(COLOURS)
        label = "others" if last and i == len(COLOURS) - 1 else None if last else plots.label(text)
        shade = COLOURS[min(i, len(COLOURS) - 1)]
        axes.scatter(*points[among].T, color=shade, label=label, **style)
    plots.legend_above(axes)
