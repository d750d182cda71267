"""Pictures of predictions and of how good they are, from plain arrays.

Each function draws on axes that it is given and returns nothing: values of n places or N rows are
(n,) or (N,), predictive quantiles (n, 4) at probabilities 0.025, 0.25, 0.75 and 0.975, names short
enough to stand on a picture, and `lower` and `upper` the range of chance alone. `picture` makes
an SVG file of what is drawn, in a style of its own: neither the caller's matplotlib settings nor
pyplot play a part. In dark surroundings the file shows its lines and letters in light colours.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = Any

# Okabe and Ito's colours, which colour-blind readers can tell apart, in a light and a dark mood.
INK = "#24292f"
FAINT = "#8c959f"
MODEL = "#0072b2"
ACCENT = "#d55e00"
_DARK = {INK: "#e6edf3", FAINT: "#7d8590", MODEL: "#56b4e9", ACCENT: "#f0a040"}

DASHES = (0, (4, 3))

MOST_BARS = 150  # error bars are drawn up to here
MOST_POINTS = 1_500  # points are drawn one by one up to here, and as a density beyond
MOST_NAMES = 30  # bars of a relevance plot

_STYLE: dict[Any, Any] = {
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


def picture(draw: Callable[[Figure], None], width: float = 8.4, height: float = 3.5) -> str:
    """An SVG file, as text, of what `draw` draws on an empty figure.

    Args:
        draw: receives the figure.
        width: in inches; a browser shows 96 pixels for each.
        height: in inches.
    """
    import io

    import matplotlib
    from matplotlib.figure import Figure

    file = io.StringIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        # names may hold letters that matplotlib's own font lacks: the browser's have them
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", dpi=130, metadata=nothing)
    return _compact(file.getvalue())


def _compact(svg: str) -> str:
    """The SVG element with shared styles, two decimals, and colours for light and dark mode."""
    styles: dict[str, str] = {}

    def named(style: re.Match) -> str:
        return f'class="{styles.setdefault(style[1], f"s{len(styles)}")}"'

    def shorter(tag: re.Match) -> str:
        return re.sub(r'style="([^"]*)"', named, re.sub(r"(\.\d\d)\d+", r"\1", tag[0]))

    svg = re.sub(r"<(?:path|use|text)\b[^>]*>", shorter, svg[svg.index("<svg") :])
    light = "".join(f"--c{i}:{colour};" for i, colour in enumerate(_DARK))
    dark = "".join(f"--c{i}:{colour};" for i, colour in enumerate(_DARK.values()))
    rules = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    for i, colour in enumerate(_DARK):
        rules = rules.replace(colour, f"var(--c{i})")
    moods = f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    end = svg.index(">") + 1
    return f"{svg[:end]}<style>{moods}{rules}</style>{svg[end:]}"


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
    """A name as it fits on a picture: one line, what cannot be printed left out, not too long."""
    line = "".join(c for c in " ".join(text.split()) if c.isprintable())
    return line if len(line) <= most else f"{line[: most - 8]}…{line[-7:]}"


def labels(names: Sequence[str], most: int = 32) -> list[str]:
    """Names as they fit on a picture; those that look the same get their number, from 1 on."""
    short = [label(name, most) for name in names]
    seen = Counter(short)
    return [
        text if seen[text] == 1 else f"{label(text, most - 5)} ({i})"
        for i, text in enumerate(short, 1)
    ]


# ----------------------------------------------------------------------------- calibration


def draw_calibration(
    axes: Axes,
    levels: np.ndarray,
    observed: np.ndarray,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
) -> None:
    """Observed against nominal coverage of central intervals."""
    if lower is not None and upper is not None:
        axes.fill_between(
            levels, lower, upper, color=FAINT, alpha=0.25, linewidth=0, label="chance alone (95 %)"
        )
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=DASHES, label="ideal")
    axes.plot(levels, observed, color=MODEL, linewidth=2, label="this model")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
    axes.set(xlabel="nominal coverage of the interval", ylabel="share of rows inside")
    legend_above(axes)


def draw_pit(axes: Axes, values: np.ndarray, bins: int = 10) -> None:
    """Histogram of the probability integral transform of the observed values."""
    edges = np.linspace(0, 1, bins + 1)
    share = np.histogram(values, edges)[0] * bins / len(values)
    axes.bar(edges[:-1], share, 1 / bins, align="edge", color=MODEL, alpha=0.6, linewidth=0)
    axes.axhline(1.0, color=INK, linewidth=1, linestyle=DASHES)
    axes.set(xlim=(0, 1), xlabel="predicted probability below the observed", ylabel="density")


# ----------------------------------------------------------------- predictions and residuals


def draw_predictions(
    axes: Axes, observed: np.ndarray, mean: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> None:
    """Predicted against observed: with error bars for few rows, as a density for many."""
    low, high = _range(np.concatenate([observed, mean]))
    axes.plot([low, high], [low, high], color=INK, linewidth=1, linestyle=DASHES, zorder=3)
    if len(mean) <= MOST_BARS:
        bars = np.stack([lower, upper])
        axes.vlines(observed, *bars, color=MODEL, alpha=0.35, linewidth=1)
    _cloud(axes, observed, mean)
    axes.set(xlabel="observed", ylabel="predicted")


def draw_residuals(axes: Axes, mean: np.ndarray, residuals: np.ndarray) -> None:
    """Standardised residuals against predictions."""
    for height in (-1.96, 1.96):
        axes.axhline(height, color=FAINT, linewidth=1, linestyle=DASHES)
    axes.axhline(0.0, color=INK, linewidth=1, linestyle=DASHES)
    _cloud(axes, mean, residuals)
    reach = max(3.5, 1.05 * float(np.max(np.abs(residuals))))
    axes.set(ylim=(-reach, reach), xlabel="predicted", ylabel="standardised residual")


def draw_residual_histogram(axes: Axes, residuals: np.ndarray, reach: float = 5.0) -> None:
    """Histogram of standardised residuals, lying, beside the standard normal density."""
    bins = int(np.clip(np.sqrt(len(residuals)), 8, 40))
    edges = np.linspace(-reach, reach, bins + 1)
    inside = np.clip(residuals, -reach, reach)
    share = np.histogram(inside, edges)[0] / (len(residuals) * (edges[1] - edges[0]))
    axes.barh(edges[:-1], share, np.diff(edges), align="edge", color=MODEL, alpha=0.6, linewidth=0)
    z = np.linspace(-reach, reach, 200)
    normal = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    axes.plot(normal, z, color=INK, linewidth=1.2, label="standard normal")
    axes.set(ylim=(-reach, reach), xlabel="density", ylabel="standardised residual")
    legend_above(axes)


def _cloud(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Points, or the density of many."""
    if len(x) <= MOST_POINTS:
        size = float(np.clip(4000 / len(x), 7, 22))
        axes.scatter(x, y, size, color=MODEL, alpha=0.65, linewidths=0)
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


# ----------------------------------------------------------------------- inputs and functions


def draw_relevance(axes: Axes, names: Sequence[str], values: np.ndarray) -> None:
    """Bars of relevance, the largest on top, at most `MOST_NAMES` of them."""
    order = np.argsort(-values, kind="stable")[:MOST_NAMES]
    places = np.arange(len(order))
    axes.barh(places, values[order], height=0.7, color=MODEL, alpha=0.75, linewidth=0)
    axes.set_yticks(places, [names[i] for i in map(int, order)])
    axes.set(ylim=(len(order) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)


def draw_intervals(
    axes: Axes,
    names: Sequence[str],
    mean: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    strong: np.ndarray,
) -> None:
    """A dot and an interval for each name, from the top down; the strong ones in colour."""
    places = np.arange(len(names))
    axes.axvline(0.0, color=FAINT, linewidth=1.0, linestyle=DASHES)
    for some, colour in ((~strong, FAINT), (strong, MODEL)):
        axes.hlines(places[some], lower[some], upper[some], color=colour, linewidth=2.0)
        axes.plot(mean[some], places[some], "o", color=colour, markersize=5)
    axes.set_yticks(places, names)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel="per deviation of the column")
    axes.tick_params(axis="y", length=0)


def draw_bands(
    axes: Axes, x: np.ndarray, mean: np.ndarray, quantiles: np.ndarray, name: str
) -> None:
    """The predictive mean along one input with its 50 and 95 % bands."""
    outer, inner = quantiles[:, [0, 3]], quantiles[:, [1, 2]]
    axes.fill_between(x, *outer.T, color=MODEL, alpha=0.18, linewidth=0, label="95 %")
    axes.fill_between(x, *inner.T, color=MODEL, alpha=0.32, linewidth=0, label="50 %")
    axes.plot(x, mean, color=MODEL, linewidth=1.8, label="mean")
    axes.set_xlabel(name)
    axes.margins(x=0)


def draw_levels(
    axes: Axes, levels: Sequence[str], mean: np.ndarray, quantiles: np.ndarray, name: str
) -> None:
    """The predictive mean at each level of a category with its 50 and 95 % intervals."""
    places = np.arange(len(levels))
    axes.vlines(places, *quantiles[:, [0, 3]].T, color=MODEL, alpha=0.3, linewidth=7)
    axes.vlines(places, *quantiles[:, [1, 2]].T, color=MODEL, alpha=0.5, linewidth=7)
    axes.plot(places, mean, color=MODEL, marker="o", markersize=5, linestyle="none")
    axes.set_xlabel(name)
    axes.set_xticks(places, labels(levels, 16))
    if len(levels) > 4 or sum(map(len, levels)) > 20:
        axes.tick_params(axis="x", labelsize=8, rotation=40)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(levels) - 0.4)


def space_dates(axes: Axes) -> None:
    """Fewer dates on the lower edge of a small panel, where there are any, to keep them apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if isinstance(axes.xaxis.get_major_locator(), AutoDateLocator):
        locator = AutoDateLocator(minticks=2, maxticks=5)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def draw_rug(axes: Axes, x: np.ndarray) -> None:
    """Ticks along the lower edge where the data are."""
    low, high = axes.get_xlim()
    numbers = np.asarray(axes.convert_xunits(x), float)
    ticks = np.repeat(numbers[(numbers >= low) & (numbers <= high)], 3)
    heights = np.tile([0.0, 0.04, np.nan], len(ticks) // 3)
    edge = axes.get_xaxis_transform()
    axes.plot(ticks, heights, color=INK, alpha=0.5, linewidth=0.7, transform=edge)


def draw_data(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """The data of one input as points."""
    size = float(np.clip(4000 / len(x), 7, 22))
    axes.scatter(x, y, size, color=INK, alpha=0.55, linewidths=0, zorder=3, label="data")


def draw_inducing(axes: Axes, x: np.ndarray) -> None:
    """Mark the inducing points of one input along the upper edge."""
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
