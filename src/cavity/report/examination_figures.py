"""Pictures of what one more inducing point would gain."""

import numpy as np

from cavity import drawing
from cavity.drawing.axes import Figure
from cavity.report.sections import Picture
from cavity.report.svg import picture

NAME, TITLE = "point_gains", "What one more inducing point would gain"
HOW = (
    "The gain is that of the variational bound of the log evidence (power 0) at these parameters, "
    "in nats, and is never negative. "
)


def gains_along(name: str, places: np.ndarray, gain: np.ndarray, inducing: np.ndarray) -> Picture:
    """The gain of a point anywhere along the only input.

    Args:
        name: of the input.
        places: along it, (C,).
        gain: at these, (C,).
        inducing: where inducing points are, (M,).
    """

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawing.point_gains(axes, places, gain)
        axes.set_xlabel(drawing.label(name))
        if len(inducing):
            drawing.inducing_points(axes, inducing)

    marks = "It is zero where there is a point already, which the triangles mark. "
    marks = marks if len(inducing) else ""
    return Picture(
        NAME,
        TITLE,
        f"The gain of one more inducing point along {name}, {np.max(gain):.3g} nats at the most.",
        f"{HOW}{marks}Where the curve is high against what the model explains over noise, points "
        "are missing.",
        picture(draw, height=2.8),
    )


def largest_gains(rows: np.ndarray, gain: np.ndarray, words: str) -> Picture:
    """The rows at which one more point would gain most.

    Args:
        rows: their numbers in the table, (B,).
        gain: the gains there, falling, (B,).
        words: the largest one in words.
    """

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawing.relevance(axes, [f"row {row}" for row in rows], gain)
        axes.set_xlabel("gain of one more point (nats)")

    return Picture(
        NAME,
        TITLE,
        f"Bars of the largest gains of one more inducing point: {words}.",
        f"{HOW}Each bar is a point at a row of this table; the {len(rows)} best are shown. They "
        "are gains of one point each: two of them that are near each other gain little more than "
        "one.",
        picture(draw, height=0.8 + 0.22 * len(rows)),
    )
