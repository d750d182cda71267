"""A model of time series and its forecast, on one HTML page that needs nothing else."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.columns.frames import DataFrame
from cavity.drawing import BANDS
from cavity.estimators.time_map import Outlook
from cavity.learning.double_precision import in_double
from cavity.numerics.text import plural
from cavity.report import forecast_figures
from cavity.report.model_section import common_facts, converged, lead
from cavity.report.rendering import check_page, write_page
from cavity.report.scores import score_cells, score_head
from cavity.report.sections import (
    Code,
    Head,
    Heading,
    Paragraph,
    Picture,
    Section,
    Table,
    Words,
    counted,
    figure_names,
    number,
    percent,
)
from cavity.tables.forecasting import TableForecaster
from cavity.tables.known_rows import NONE, Known, known_rows, marks

# Steps that are judged by themselves, beside all of them; pictures of outputs at the most.
NEAR, MOST_FANS = 10, 6


class Written(NamedTuple):
    """Result of writing a page.

    Attributes:
        figures: the names of its figures.
        notes: what must be known to read it, in sentences.
    """

    figures: list[str]
    notes: list[str]


class Rows(NamedTuple):
    """The rows of one series in a table.

    Attributes:
        label: of the series; empty where there is one.
        y: outputs (n, P), NaN where they are missing, everywhere where the table has none.
        X: controls (n, C).
        known: the rows at its beginning that are rows of the fit.
        first: the first row of the series in the fit, of those of all series.
    """

    label: str
    y: np.ndarray
    X: np.ndarray
    known: Known
    first: int

    @property
    def ahead(self) -> int:
        """Number of rows that follow those of the fit."""
        follows = self.known.to_the_end or not self.known.count
        return len(self.y) - self.known.count if follows else 0

    @property
    def fitted(self) -> np.ndarray:
        """The places of its known rows in the fit."""
        return self.first + self.known.first + np.arange(self.known.count)


class Told(NamedTuple):
    """Predictions of rows of all series, with the observed outputs, in the units of the data.

    Attributes:
        y: outputs (S, n, P), NaN where they were not observed.
        mean: predictive means.
        quantiles: at the probabilities of bands, (S, n, P, 4).
        density: log densities of y, NaN where it is.
    """

    y: np.ndarray
    mean: np.ndarray
    quantiles: np.ndarray
    density: np.ndarray


@in_double
def write_forecast(path: str | Path, fitted: TableForecaster, table: DataFrame) -> Written:
    """Writes the page, whole or not at all.

    Rows at the beginning of the table that the model was fitted to are known by their values.
    They are judged by the posterior of all rows, and rows after them by the forecast.

    Args:
        path: the file; what it held before is replaced.
        fitted: the model.
        table: rows that follow those of the fit, or these and what follows: controls, and outputs
            where they are known.

    Raises:
        DataError: for controls that are not there, and of kind "io" if the file cannot be written.
    """
    check_page(path)
    parts = _parts(fitted, table)
    steps = max(part.ahead for part in parts)
    ahead = _ahead(fitted, parts, steps) if steps else None
    past = _past(fitted, parts) if any(part.known.count for part in parts) else None
    notes = _notes(fitted, parts, steps)
    pictures = _pictures(fitted, parts, ahead, past)
    sections = [
        _went(fitted, ahead, steps),
        _described(fitted, past),
        *(Section(picture.title, [picture]) for picture in pictures),
        _model(fitted),
    ]
    write_page(path, fitted.record, _head(fitted, steps, notes), sections)
    return Written(figure_names(sections), notes)


def _head(fitted: TableForecaster, steps: int, notes: list[str]) -> Head:
    """The top of the page."""
    record = fitted.record
    model = f"State-space model with {counted(record['states'], 'hidden state')}"
    tiles = [
        ("steps ahead", number(steps)),
        ("rows of the fit", number(record["n_rows"])),
        ("log evidence of the fit", f"{number(record['log_evidence'], 6)} nats"),
    ]
    said = [Paragraph(f"{note}.", "small") for note in notes]
    return Head(f"Forecast of {', '.join(record['targets'])}", lead(model, record), tiles, said)


def _went(fitted: TableForecaster, ahead: Told | None, steps: int) -> Section | None:
    """Scores and pictures of the forecast, where outputs of its rows are known."""
    spans = {f"1 to {n}": n for n in sorted({min(NEAR, steps), steps}) if n}
    judged = [] if ahead is None else _judged(fitted, ahead, spans)
    return Section("How the forecast went", [_table(judged, "steps")]) if judged else None


def _described(fitted: TableForecaster, past: Told | None) -> Section | None:
    """Descriptions of rows of the fit, where the table has some."""
    judged = [] if past is None else _judged(fitted, past, {"of the fit": None})
    text = (
        "Given all rows of the fit, these among them: this says whether the model suits them, not "
        "how well it forecasts."
    )
    parts = [Paragraph(text, "small"), _table(judged, "rows")]
    return Section("How rows of the fit are described", parts) if judged else None


def _table(judged: list[tuple[Words, ...]], kind: str) -> Table:
    """Scores of outputs."""
    return Table(("output", kind, *score_head("observed", "the mean of the fit", 95)), judged)


def _model(fitted: TableForecaster) -> Section:
    """The model, and how it was learned."""
    record = fitted.record
    facts = [("controls", ", ".join(record["controls"]) or "none")]
    if record["series"]:
        labels = len(record["series_labels"])
        facts.append(("series", f"{labels}, told apart by {record['series']}"))
    facts += [*common_facts(record), converged(record), *_simulated(record)]
    text = (
        "Of standardised columns. The places of the inducing points were learned too, and are not "
        "listed."
    )
    rows = [
        (Code(name), " ".join(f"{x:.4g}" for x in np.ravel(np.asarray(value, float))))
        for name, value in record["parameters"].items()
        if ".inducing." not in name
    ]
    table = Table(("parameter", "values"), rows)
    parts = [Table((), facts), Heading("Learned parameters"), Paragraph(text, "small"), table]
    return Section("The model", parts)


def _simulated(record: Mapping[str, Any]) -> list[tuple[str, Words]]:
    """Simulations of the last rows from those before, where that was tried."""
    told = record.get("free_simulation")
    if not told:
        return []

    def listed(name: str, show: Callable[[float], str]) -> str:
        return " ".join(show(value) for value in told[name])

    short = functools.partial(number, digits=3)
    text = (
        f"CRPS in standard deviations {listed('crps', short)} (linear model of {told['lags']} "
        f"lagged outputs: {listed('crps_lags', short)}); in 90 % intervals "
        f"{listed('coverage', percent)} (lags: {listed('coverage_lags', percent)}); forecasts "
        f"widened by {listed('widening', short)}"
    )
    return [(f"last {told['rows']} rows, simulated from those before", text)]


def _parts(fitted: TableForecaster, table: DataFrame) -> list[Rows]:
    """The rows of every series, and which of them the model was fitted to."""
    tables = [table] if fitted.series is None else fitted.series.parts(table)
    labels = ("",) if fitted.series is None else fitted.series.labels
    series = np.asarray(fitted.time_map.posterior.series)
    came, parts = all(name in table.columns for name in fitted.targets), []
    width = len(fitted.targets)
    for place, (label, rows) in enumerate(zip(labels, tables, strict=True)):
        own = np.flatnonzero(series == place)
        y, X = np.full((len(rows), width), np.nan), np.zeros((0, len(fitted.schema.inputs)))
        if len(rows) or fitted.series is None:
            X = fitted.schema.numbers_in(rows, fitted.schema.inputs)
            y = fitted.schema.numbers_in(rows, fitted.schema.targets) if came else y
        known = NONE
        if came and len(fitted.marks):
            known = known_rows(marks(np.hstack([y, X])), fitted.marks[own])
        parts.append(Rows(label, y, X, known, int(own[0])))
    return parts


def _ahead(fitted: TableForecaster, parts: list[Rows], steps: int) -> Told:
    """Forecasts of the rows after those of the fit."""
    maps = fitted.time_map
    y = np.full((len(parts), steps, len(fitted.targets)), np.nan)
    X = np.tile(maps.controls.mean, (len(parts), steps, 1))
    for s, part in enumerate(parts):
        y[s, : part.ahead] = part.y[len(part.y) - part.ahead :]
        X[s, : part.ahead] = part.X[len(part.X) - part.ahead :]
    controls = (X if maps.several else X[0]) if X.shape[2] else None
    return _told(maps.forecast(steps, controls), y if maps.several else y[0])


def _past(fitted: TableForecaster, parts: list[Rows]) -> Told:
    """Smoothed outputs of the rows of the fit, with the outputs that the table has of them."""
    rows = fitted.record["n_rows"]
    y = np.full((rows, len(fitted.targets)), np.nan)
    for part in parts:
        y[part.fitted] = part.y[: part.known.count]
    return _told(fitted.time_map.smoothed(), y)


def _told(outlook: Outlook, y: np.ndarray) -> Told:
    """Forecasts of outputs, with an axis of series in front."""
    told = outlook.moments().mean, outlook.quantiles(BANDS), outlook.log_density(y)
    mean, quantiles, density = (a.reshape(-1, *a.shape[y.ndim - 2 :]) for a in told)
    return Told(y.reshape(-1, *y.shape[-2:]), mean, quantiles, density)


def _notes(fitted: TableForecaster, parts: list[Rows], steps: int) -> list[str]:
    """Notes needed to read the page."""
    notes, known = [], sum(part.known.count for part in parts)
    if known:
        whole = known == sum(len(part.y) for part in parts)
        which = "all rows" if whole else f"{plural(known, 'row')} at the beginning"
        of = " of its series" if fitted.series is not None and not whole else ""
        verb = "were" if known > 1 else "was"
        text = f"{which} of the table{of} {verb} trained on: they are described, not forecast"
        notes.append(text[0].upper() + text[1:] + ("" if steps else ", and nothing follows them"))
    elsewhere = sum(part.known.elsewhere for part in parts)
    if elsewhere:
        notes.append(
            f"{plural(elsewhere, 'further row')} of the table equal rows of the fit, and do not "
            "follow it: sort the table by time"
        )
    leaving = fitted.time_map.leaving(steps) if steps else None
    return notes if leaving is None else [*notes, leaving[0].upper() + leaving[1:]]


def _pictures(
    fitted: TableForecaster, parts: list[Rows], ahead: Told | None, past: Told | None
) -> list[Picture]:
    """Fans of outputs, rows of the fit, states and how they move."""
    pictures = []
    for p, name in enumerate(fitted.targets):
        for s, part in enumerate(parts):
            called = f"{name}, {part.label}" if part.label else name
            if ahead is not None and part.ahead:
                n = part.ahead
                told = ahead.mean[s, :n, p], ahead.quantiles[s, :n, p], ahead.y[s, :n, p]
                pictures.append(forecast_figures.fan(called, *told))
            if past is not None and part.known.count:
                rows = part.fitted
                told = past.mean[0, rows, p], past.quantiles[0, rows, p], past.y[0, rows, p]
                first = part.known.first + 1
                pictures.append(forecast_figures.described(called, first, *told))
    pictures = pictures[:MOST_FANS]
    posterior = fitted.time_map.posterior
    states = posterior.states
    at, series = np.asarray(states.mean), np.asarray(posterior.series)
    starts = np.flatnonzero(np.diff(series[: len(at)]) != 0.0) + 1
    pictures.append(forecast_figures.states(at, np.sqrt(np.asarray(states.var)), starts))
    transition = posterior.transition
    pictures.append(forecast_figures.transition(transition, posterior.n_inputs, at, starts))
    return pictures


def _judged(
    fitted: TableForecaster, told: Told, spans: Mapping[str, int | None]
) -> list[tuple[Words, ...]]:
    """Scores of the first rows and of all, for every output that was observed."""
    low, high = told.quantiles[..., 0], told.quantiles[..., -1]
    found = []
    for p, name in enumerate(fitted.targets):
        for rows, most in spans.items():
            y, mean = told.y[:, :most, p], told.mean[:, :most, p]
            at = ~np.isnan(y)
            if not np.any(at):
                continue
            inside = (y >= low[:, :most, p]) & (y <= high[:, :most, p])
            errors = (y - mean)[at], (y - fitted.time_map.outputs.mean[p])[at]
            cells = score_cells(*errors, told.density[:, :most, p][at], inside[at])
            found.append((name, rows, *cells))
    return found
