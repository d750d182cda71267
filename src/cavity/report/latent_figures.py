"""Pictures of a latent space: its dimensions, and the rows in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity import drawing
from cavity.drawing.axes import Figure
from cavity.estimators.latent_map import Gaussians
from cavity.report.figures import thinned
from cavity.report.sections import Picture
from cavity.report.svg import picture

MOST_ROWS = 3_000  # of a map


def relevance(shares: np.ndarray) -> Picture:
    """The shares of the latent dimensions in the variation of the columns."""
    names = [f"dimension {i}" for i in range(1, len(shares) + 1)]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawing.relevance(axes, names, 100.0 * shares)
        axes.set(xlabel="relevance, %", xlim=(0.0, None))

    listed = ", ".join(f"{100 * share:.0f} %" for share in shares[:5])
    return Picture(
        "latent_relevance",
        "Relevance of the latent dimensions",
        f"Bars of the relevance of {len(shares)} latent dimensions: {listed}.",
        "How far the columns move, in mean square, where rows exchange their positions along one "
        "dimension, as a share of the sum over dimensions. A dimension next to zero is not "
        "needed; where none is, more dimensions may be worth trying.",
        picture(draw, width=6.0, height=0.8 + 0.32 * min(len(shares), drawing.MOST_NAMES)),
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
        drawing.embedding(figure.subplots(), mean, std, shown, str(name))

    by = f", coloured by {name}" if name is not None else ""
    few = len(chosen) <= drawing.MOST_DEVIATIONS
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
        picture(draw, width=7.2, height=5.6),
    )
