"""Colours, names and legends that all pictures share."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cavity.drawing.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can tell apart.
INK = "#24292f"
FAINT = "#8c959f"
MODEL = "#0072b2"
ACCENT = "#d55e00"
# Of classes, or of the texts of a column.
COLOURS = (
    *(MODEL, ACCENT, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442"),
    *("#7f3b08", "#542788", FAINT),
)
DASHES = (0, (4, 3))

# Settings of matplotlib under which the pictures of reports are drawn.
STYLE: dict[Any, Any] = {
    "font.size": 10.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-4, 5),
    "date.converter": "concise",
    "figure.facecolor": "none",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.labelcolor": INK,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "cavity",  # the same picture gives the same file
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}


def ink() -> str:
    """The colour of texts in matplotlib's settings, for marks that are to be seen on them."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def legend_above(axes: Axes) -> None:
    """A legend outside the axes, where it covers nothing that is drawn."""
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=3,
        columnspacing=1.0,
        handletextpad=0.5,
        borderaxespad=0.2,
    )


def label(text: str, most: int = 32) -> str:
    """A name as it fits on a picture: one line, what cannot be printed left out, not too long.

    Args:
        text: the name.
        most: letters that it may have.
    """
    line = "".join(c for c in " ".join(text.split()) if c.isprintable())
    return line if len(line) <= most else f"{line[: most - 8]}…{line[-7:]}"


def labels(names: Sequence[str], most: int = 32) -> list[str]:
    """Names as they fit on a picture; those that look the same get their number, from 1 on.

    Args:
        names: the names.
        most: letters that each may have.
    """
    short = [label(name, most) for name in names]
    seen = Counter(short)
    return [
        text if seen[text] == 1 else f"{label(text, most - 5)} ({i})"
        for i, text in enumerate(short, 1)
    ]


def space_dates(axes: Axes) -> None:
    """Fewer dates on the lower edge of a small panel, where there are any, to keep them apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if isinstance(axes.xaxis.get_major_locator(), AutoDateLocator):
        locator = AutoDateLocator(minticks=2, maxticks=5)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def point_size(count: int) -> float:
    """The area of a point in a cloud of some: the more there are, the smaller."""
    return min(max(4000 / max(count, 1), 7.0), 22.0)
