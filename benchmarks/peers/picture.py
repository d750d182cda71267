"""A picture of the results: times of values and gradients, and objectives against time."""

from pathlib import Path
from typing import Any

Row = dict[str, str]
# Legible on white and on black.
INK = "#808080"
COLOURS = {
    "cavity": "#d9480f",
    "gpflow": "#1c7ed6",
    "gpytorch": "#2f9e44",
    "gpjax": "#ae3ec9",
    "gpy": "#b08900",
}
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cavity",
    "font.size": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
LEAST_GAP = 1.0  # nats; curves end there


def draw(times: list[Row], traces: list[Row], path: Path) -> None:
    """Writes the picture; parts without rows stay away."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    sets = sorted({(row["set"], int(row["M"]), int(row["N"])) for row in traces})
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.5, 2.8 * (1 + (len(sets) + 1) // 2)), layout="constrained")
        grid = figure.add_gridspec(1 + (len(sets) + 1) // 2, 2)
        evaluations(figure.add_subplot(grid[0, :]), times)
        for i, one in enumerate(sets):
            mine = [row for row in traces if (row["set"], int(row["M"])) == one[:2]]
            curves(figure.add_subplot(grid[1 + i // 2, i % 2]), one, mine)
        figure.savefig(path, transparent=True, metadata={"Date": None})


def evaluations(axes: Any, times: list[Row]) -> None:
    """Milliseconds of one value and gradient, a line of points for each problem."""
    words = {"vfe": "VFE", "fitc": "FITC", "power": "power 0.5"}
    kinds = [
        (method, N, M)
        for N, M in sorted({(int(r["N"]), int(r["M"])) for r in times if r["task"] == "sparse"})
        for method in words
    ]
    places = {kind: -float(i) for i, kind in enumerate(kinds)}
    for library, colour in COLOURS.items():
        mine = [r for r in times if (r["task"], r["library"]) == ("sparse", library)]
        x = [float(r["ms"]) for r in mine]
        y = [places[r["method"], int(r["N"]), int(r["M"])] for r in mine]
        axes.plot(x, y, "o", color=colour, label=library, ms=5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter(lambda x, _: "")
    labels = [f"{words[method]}, {N:,} rows, {M} points" for method, N, M in kinds]
    axes.set_yticks(list(places.values()), labels)
    axes.set_xlabel("ms for a value and its gradient")
    axes.grid(axis="y", color=INK, alpha=0.25)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), labelcolor=INK)


def curves(axes: Any, one: tuple[str, int, int], traces: list[Row]) -> None:
    """How far each library's fit is below the best bound that any reached, against seconds."""
    best = max(float(row["objective"]) for row in traces)
    for library, colour in COLOURS.items():
        mine = [row for row in traces if row["library"] == library]
        gaps = [max(best - float(row["objective"]), LEAST_GAP) for row in mine]
        axes.plot([float(row["seconds"]) for row in mine], gaps, ".-", color=colour, lw=1, ms=3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(f"{one[0]}, {one[1]} points", color=INK, fontsize=8)
    axes.set_xlabel("seconds")
    axes.set_ylabel("nats below the best")
