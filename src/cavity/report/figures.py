"""The pictures of a report, each with a caption that says how to read it."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from cavity import drawing
from cavity.drawing.axes import Axes, Figure
from cavity.numerics.text import plural
from cavity.report.figure_data import coverage_of
from cavity.report.outcomes import Outcome
from cavity.report.parameters import MEASURES, Relevance
from cavity.report.sections import Picture
from cavity.report.slices import Slice
from cavity.report.svg import picture

MOST_DATA = 1_000  # points of a fit
MOST_TICKS = 250  # of a rug
COUNTED = (
    " Intervals of counts hold at least their share, so the curve may lie above the line; the "
    "probability below a count includes half of its own."
)


@dataclasses.dataclass(frozen=True)
class Shown:
    """Descriptions of the line and the bands of a picture."""

    alt: str
    what: str = "The predictive mean"
    bands: str = "50 % and 95 % of new values, noise included"
    data: str = ""


def thinned(count: int, most: int) -> np.ndarray:
    """Positions of at most `most` of `count` rows, chosen evenly at random, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


# ------------------------------------------------------------------------ quality of predictions


def calibration(outcome: Outcome) -> Picture:
    """Coverage of central intervals, and the histogram of the probability transform."""
    count, found = len(outcome.observed), coverage_of(outcome)

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        drawing.calibration(left, *found)
        drawing.probability_transform(right, outcome.below)

    inside = {level: outcome.coverage(level) for level in (0.5, 0.9)}
    discrete = outcome.table is not None and outcome.table.discrete
    return Picture(
        "calibration",
        "Calibration",
        f"Two charts of calibration over {count} rows: {100 * inside[0.5]:.0f} % of the rows lie "
        f"inside their 50 % interval, {100 * inside[0.9]:.0f} % inside their 90 % interval.",
        "Left: the share of rows that fall inside their central predictive interval, against the "
        "share that should. On the dashed line the stated uncertainty is right; below it the "
        "model is too confident, above it too cautious. The grey band is where a perfectly "
        f"calibrated model would lie with {count} rows, 95 times in 100. Right: the predicted "
        "probability of a value below the observed one, over all rows; flat is ideal, a hump "
        "means too cautious, a valley too confident, a slope means predictions too low or high."
        + (COUNTED if discrete else ""),
        picture(draw, height=4.0),
    )


def predictions(outcome: Outcome) -> Picture:
    """Predicted against observed."""
    count = len(outcome.observed)
    ends = outcome.quantiles[:, 0], outcome.quantiles[:, 3]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawing.predictions(axes, outcome.observed, outcome.mean, *ends)

    if count <= drawing.MOST_BARS:
        how = "Each point is a row, each bar its 95 % interval."
    elif count <= drawing.MOST_POINTS:
        how = "Each point is a row."
    else:
        how = f"The brighter, the more of the {count:,} rows are in one place, on a log scale."
    return Picture(
        "predicted_against_observed",
        "Predicted against observed",
        f"Predicted means against observed values of {plural(count, 'row')}"
        + (f"; their correlation is {_correlation(outcome):.2f}." if count > 2 else "."),
        f"{how} On the dashed line a prediction is exact. A cloud flatter than the line means "
        "that large and small values are drawn towards the middle, as they should be where the "
        "inputs say little.",
        picture(draw, width=6.0, height=4.2),
    )


def _correlation(outcome: Outcome) -> float:
    both = np.stack([outcome.observed, outcome.mean])
    if np.any(np.ptp(both, axis=1) == 0.0):
        return 0.0
    return float(np.corrcoef(both)[0, 1])


def residuals(outcome: Outcome) -> Picture:
    """Standardised residuals against predictions, and their histogram."""
    values = outcome.residuals
    count, beyond = len(values), 100 * float(np.mean(np.abs(values) > 1.96))

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        drawing.residuals(left, outcome.mean, values)
        drawing.residual_histogram(right, values)

    largest = int(np.argmax(np.abs(values)))
    what = "Observed minus predicted, divided by the predictive deviation. Left:"
    if outcome.table is not None:
        what = (
            "Each observed value as the standard normal deviate that has the same predicted "
            "probability below it. Left:"
        )
    return Picture(
        "residuals",
        "Standardised residuals",
        f"Standardised residuals of {count} rows against predictions, and their histogram; "
        f"{beyond:.1f} % are beyond 1.96.",
        f"{what} a shapeless cloud "
        "around zero is ideal; a bend shows a trend that the model misses, a funnel noise that "
        f"is not the same everywhere. {beyond:.1f} % of the rows are outside the grey dashed "
        "lines, 5 % should be. Right: against the standard normal density (line); heavier tails "
        "are outliers, counted in the outermost bars beyond 5. The largest residual is "
        f"{values[largest]:.3g}, in row {outcome.rows[largest]} of the table.",
        picture(draw, height=3.6),
    )


# ---------------------------------------------------------------------------------- inputs


def relevance(found: Sequence[Relevance], features: Sequence[str]) -> Picture:
    """The relevance of the inputs, a panel for each part of the kernel."""
    shown = list(found)[:4]
    longest = min(max(len(r.values) for r in shown), drawing.MOST_NAMES)

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(shown), squeeze=False)[0]
        for axes, part in zip(panels, shown, strict=True):
            names = drawing.labels(part.names(features), max(48 // len(shown), 16))
            drawing.relevance(axes, names, part.values)
            axes.set(xlabel=part.measure, title=part.part if len(shown) > 1 else "")

    first = shown[0]
    names = first.names(features)
    top = [names[i] for i in map(int, np.argsort(-first.values)[:3])]
    kinds = list(dict.fromkeys(part.measure for part in shown))
    texts = [MEASURES[kind] for kind in kinds]
    if max(len(r.values) for r in shown) > drawing.MOST_NAMES:
        texts.append(f"The {drawing.MOST_NAMES} longest bars are shown.")
    if len(shown) > 1:
        texts.append("Each panel is a part of the kernel, with a scale of its own.")
    if len(found) > len(shown):
        texts.append(f"The first {len(shown)} of {len(found)} parts are shown.")
    return Picture(
        "relevance",
        "Relevance of the inputs",
        f"Bars of the relevance of inputs; the largest: {', '.join(top)}.",
        " ".join(texts),
        picture(draw, height=1.1 + 0.24 * longest),
    )


def panels(
    cuts: Sequence[Slice],
    columns: Sequence[str],
    draw_panel: Callable[[Axes, int], None],
    ylabel: str,
    *,
    legend: bool = False,
) -> str:
    """A panel for each slice, drawn given its number; one scale."""
    width = 2 if len(cuts) == 4 else min(len(cuts), 3)
    height = -(-len(cuts) // width)
    names = dict(zip(columns, drawing.labels(columns, 30), strict=True))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(height, width, sharey=True, squeeze=False).ravel()
        for i, (axes, cut) in enumerate(zip(grid, cuts, strict=False)):
            draw_panel(axes, i)
            axes.set_xlabel(names[cut.column.name])
            drawing.space_dates(axes)
        for axes in grid[len(cuts) :]:
            axes.remove()
        for axes in grid[: len(cuts) : width]:
            axes.set_ylabel(ylabel)
        if legend:
            handles, labels = grid[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5))

    least, room = (5.0, 0.9) if legend else (4.0, 0.4)
    return picture(draw, max(8.4 * width / 3, least), room + 2.3 * height)


def along_inputs(
    chosen: Sequence[tuple[Slice, np.ndarray, np.ndarray]],
    target: str,
    columns: Sequence[str],
    shown: Shown,
) -> Picture:
    """Predictions of a target along one input each, the others at typical values.

    Args:
        chosen: slices with predictive means (n,) and quantiles (n, 4) at `BANDS`.
        target: what is predicted.
        columns: the names of all columns that there were to choose from.
        shown: what the line and the bands are.
    """
    cuts = [cut for cut, _, _ in chosen]

    def draw(axes: Axes, i: int) -> None:
        cut, mean, quantiles = chosen[i]
        if cut.levels:
            drawing.levels(axes, cut.levels, mean, quantiles)
        else:
            drawing.bands(axes, cut.places, mean, quantiles)
            drawing.rug(axes, cut.data[thinned(len(cut.data), MOST_TICKS)])

    rows = max(len(cut.data) for cut in cuts)
    thin = f" ({MOST_TICKS} of {rows:,} rows, chosen at random)" if rows > MOST_TICKS else ""
    swing = max(float(np.ptp(mean)) for _, mean, _ in chosen)
    reach = max(float(np.ptp(quantiles[0])) for _, _, quantiles in chosen)
    order = "The columns that move the prediction most come first"
    are = "is shown" if len(chosen) == 1 else "are shown"
    order += f"; {len(chosen)} of {len(columns)} {are}." if len(chosen) < len(columns) else "."
    if swing < 1e-3 * reach:
        order = "No column moves the prediction noticeably."
    return Picture(
        "slices",
        "Along one input at a time",
        f"{shown.alt} along each of: {', '.join(cut.column.name for cut in cuts)}.",
        f"{shown.what} (line) with the intervals that hold {shown.bands}, as one column changes "
        "and the others stay at their median or most "
        f"frequent value. Ticks at the bottom are the data{thin}. All panels share one vertical "
        "scale. " + order,
        panels(cuts, columns, draw, drawing.label(target, 24)),
    )


def fit(
    along: tuple[Slice, np.ndarray, np.ndarray],
    observed: np.ndarray | None,
    inducing: np.ndarray | None,
    target: str,
    shown: Shown,
) -> Picture:
    """The whole fit of one target to a single numeric input.

    Args:
        along: places along the input, with predictive means (n,) and quantiles (n, 4) at `BANDS`.
        observed: targets of the table, (N,), or None.
        inducing: inducing points, (M,), or None.
        target: what is predicted.
        shown: what the line and the bands are.
    """
    cut, mean, quantiles = along
    x, places = cut.data, cut.places
    rows = thinned(len(x), MOST_DATA)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawing.bands(axes, places, mean, quantiles)
        if observed is None:
            drawing.rug(axes, x[rows])
        else:
            drawing.data(axes, x[rows], observed[rows])
        if inducing is not None:
            drawing.inducing_points(axes, inducing)
        axes.set(xlabel=drawing.label(cut.column.name), ylabel=drawing.label(target))
        figure.legend(loc="outside upper center", ncols=5)

    texts = [f"{shown.what} with the bands that hold {shown.bands}, and the data of this table."]
    texts += [shown.data] if shown.data else []
    if len(rows) < len(x):
        texts.append(f"{len(rows):,} of {len(x):,} rows are drawn, chosen at random.")
    if inducing is not None:
        marks = f"Triangles at the top mark the {len(inducing)} inducing points"
        if len(inducing) == 1:
            marks = "The triangle at the top marks the inducing point"
        texts.append(f"{marks}, through which the model sees the data.")
    return Picture(
        "fit",
        "The fit",
        f"{target} against {cut.column.name}: data, {shown.what.lower()} and bands.",
        " ".join(texts),
        picture(draw, height=4.4),
    )
