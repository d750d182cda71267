"""An embedding and what it makes of a table, on one HTML page that needs nothing else."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from cavity.columns import cells
from cavity.columns.column_types import evidence
from cavity.columns.frames import DataFrame
from cavity.drawing import BANDS
from cavity.estimators.latent_map import LatentMap
from cavity.likelihoods.support import Support
from cavity.report import figures, latent_figures
from cavity.report.model_section import common_facts, lead, learning
from cavity.report.outcomes import Outcome
from cavity.report.rendering import check_page, write_page
from cavity.report.scores import rms, score_cells, score_head
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
from cavity.tables.embedding import TableEmbedding, outputs
from cavity.tables.schema import need_column

# Of the check by entries held out: rows at the most, and the share of their entries.
MOST_ROWS, SHARE = 500, 0.2
FEW = 10  # entries below which there is no picture of them


class HeldOut(NamedTuple):
    """Entries that were predicted from others of their row.

    Attributes:
        rows: name and scores of each column.
        error: root mean square error over all, in standard deviations of the columns.
        plain: that of the columns' means.
        pictures: of all entries, in standard deviations of their columns.
    """

    rows: list[tuple[Words, ...]]
    error: float
    plain: float
    pictures: list[Picture]


def write_map(
    path: str | Path, fitted: TableEmbedding, table: DataFrame, colour: str | None = None
) -> list[str]:
    """Writes the page, whole or not at all.

    Args:
        path: the file; what it held before is replaced.
        fitted: the embedding.
        table: what `read_table` gives.
        colour: the column that colours the map; None for one colour.

    Returns:
        The names of the page's figures.

    Raises:
        DataError: for columns that are not there, and of kind "io" if the file cannot be written.
    """
    check_page(path)
    colours = None if colour is None else colours_of(table, colour)
    Y = outputs(table, fitted.schema)
    check = held_out(fitted.map, Y, fitted.columns)
    places = latent_figures.latent_map(fitted.map.transform(Y), colours, colour, len(Y))
    pictures = [places, latent_figures.relevance(fitted.map.relevance)]
    sections = [
        *(Section(picture.title, [picture]) for picture in pictures),
        _checked(check),
        _data(fitted, Y),
        _model(fitted, Y),
    ]
    write_page(path, fitted.record, _head(fitted, Y, check), sections)
    return figure_names(sections)


def _head(fitted: TableEmbedding, Y: np.ndarray, check: HeldOut | None) -> Head:
    """The top of the page."""
    record, missing = fitted.record, int(np.isnan(Y).sum())
    model = "Gaussian process latent-variable model with "
    model += counted(record["components"], "dimension")
    tiles = [
        ("rows of this table", number(len(Y))),
        ("missing cells", f"{missing:,} ({percent(missing / Y.size, 1)})"),
        ("log evidence of the fit", f"{number(record['log_evidence'], 6)} nats"),
    ]
    if check is not None:
        tiles.append(("error of held-out entries, standardised", number(check.error, 3)))
        tiles.append(("error of the columns' means", number(check.plain, 3)))
    about = lead(model, record, ". Columns are in the units of the table.")
    return Head(f"Embedding of {counted(len(fitted.columns), 'column')}", about, tiles, [])


def _checked(check: HeldOut | None) -> Section:
    """Scores of predictions of entries from others of their row."""
    title = "Entries predicted from others"
    if check is None:
        return Section(title, [Paragraph("This needs rows with at least two entries.", "small")])
    text = (
        "Some of the observed entries of this table (20 % of each row, rounded up, of at most "
        f"{MOST_ROWS} rows) were hidden and predicted from the others of their row. RMSE is the "
        "root mean squared error, in the units of the column; that of the column's mean stands "
        "beside it."
    )
    head, rows = score_head("entries", "the mean", 90), check.rows
    table = Table(("column", *head), rows, f"All {len(rows)} columns", 40)
    seen = (
        "If this is the table that the model was fitted to, the fit has seen the hidden entries: "
        "expect worse on new rows."
    )
    return Section(title, [Paragraph(text), table, Paragraph(seen, "small"), *check.pictures])


def _data(fitted: TableEmbedding, Y: np.ndarray) -> Section:
    """The columns of the table in short."""
    constant, rows = set(fitted.record["constant"]), []
    for name, values in zip(fitted.columns, Y.T, strict=True):
        present = values[~np.isnan(values)]
        ends = (np.min, np.mean, np.max)
        told = [float(end(present)) if len(present) else None for end in ends]
        note = "constant in the fit: no part in the model" if name in constant else ""
        rows.append((name, len(values) - len(present), *told, note))
    head = ("column", ">missing", ">minimum", ">mean", ">maximum", "")
    return Section("The data", [Table(head, rows, f"All {len(rows)} columns", 24)])


def _model(fitted: TableEmbedding, Y: np.ndarray) -> Section:
    """The model, and how it was learned."""
    record = fitted.record
    density = float(np.mean(fitted.map.log_density(Y)))
    facts = [
        *common_facts(record, method=record["method"]),
        (
            "log evidence",
            f"{number(record['log_evidence'], 8)} nats, of columns in their own units",
        ),
        (
            "log density of this table",
            f"{number(density)} nats per row at least, at its observed entries",
        ),
        *learning(record),
    ]
    real = fitted.posterior.model.likelihood.support is Support.REAL
    text = (
        f"Of {'standardised columns and of ' if real else ''}latent points of unit variance. The "
        "places of the inducing points were learned too, and are not listed."
    )
    rows = []
    for name, value in record["parameters"].items():
        array = np.asarray(value, float)
        several = array.shape == (fitted.dims,)
        for i, x in enumerate(array.ravel() if not name.startswith("inducing.") else ()):
            place = f"dimension {i + 1}" if several else ""
            rows.append((Code(name), place, number(float(x), 5)))
    table = Table(("parameter", "~of", ">value"), rows)
    parts = [Table((), facts), Heading("Learned parameters"), Paragraph(text, "small"), table]
    return Section("The model", parts)


def colours_of(table: DataFrame, name: str) -> list[Any]:
    """The cells of a column as numbers or, where they are none, as text; None where missing.

    Raises:
        DataError: for a column that is not there.
    """
    need_column(table.columns, name)
    shown = evidence(table[name])
    if shown.declared == "numeric" or (shown.declared is None and shown.numeric == shown.present):
        return [None if np.isnan(value) else float(value) for value in cells.numbers(table[name])]
    return cells.text(table[name]).to_list()


def held_out(latent: LatentMap, Y: np.ndarray, names: Sequence[str]) -> HeldOut | None:
    """Predicts some entries of a table from the others of their rows.

    Args:
        latent: the embedding.
        Y: the columns, (N, P), NaN where missing.
        names: of the columns.

    Returns:
        How that went; None where no row has two entries of columns that vary.
    """
    random = np.random.default_rng(0)
    rows = Y[np.sort(random.permutation(len(Y))[:MOST_ROWS])]
    present = ~np.isnan(rows) & latent.columns.varying
    # one entry of every row stays, so that it is never empty
    order = np.argsort(np.where(present, random.random(rows.shape), 2.0), axis=1)
    rank = np.argsort(order, axis=1)
    count = present.sum(axis=1, keepdims=True)
    hidden = present & (rank < np.minimum(np.ceil(SHARE * count), count - 1))
    if not np.any(hidden):
        return None
    found = latent.reconstruct(np.where(hidden, np.nan, rows))
    density = latent.conditional_density(rows, hidden)
    scale = _spread(latent, Y)
    wrong, plain = rows - found.mean, rows - np.nanmean(Y, axis=0)
    inside = np.abs(wrong) <= ndtri(0.95) * found.std
    checks: list[tuple[Words, ...]] = []
    real = latent.posterior.model.likelihood.support is Support.REAL
    for j in map(int, np.flatnonzero(hidden.any(axis=0))):
        at = hidden[:, j]
        within = inside[at, j] if real else np.array([np.nan])
        told = score_cells(wrong[at, j], plain[at, j], density[at, j], within)
        checks.append((names[j], *told))
    i, j = np.nonzero(hidden)
    unit, centre = scale[j], np.nanmean(Y, axis=0)[j]
    observed, mean = (rows[i, j] - centre) / unit, (found.mean[i, j] - centre) / unit
    std = found.std[i, j] / unit
    quantiles = mean[:, None] + std[:, None] * ndtri(np.array(BANDS))
    outcome = Outcome(observed, mean, std, quantiles, i + 1)
    pictures = []
    if real and len(observed) >= FEW:
        pictures = _of_entries(outcome)
    return HeldOut(checks, rms(observed - mean), rms(observed), pictures)


def _of_entries(outcome: Outcome) -> list[Picture]:
    """Pictures of predictions of entries, in words for these."""
    predicted, calibration = figures.predictions(outcome), figures.calibration(outcome)
    caption = (
        "Each point is a hidden entry, about the mean of its column and in standard deviations "
        "of it; bars, where there are few, are 95 % intervals. On the dashed line a prediction "
        "is exact."
    )
    alts = [each.alt.replace("rows", "entries") for each in (predicted, calibration)]
    told = calibration.caption.replace("rows", "entries")
    return [
        dataclasses.replace(predicted, alt=alts[0], caption=caption),
        dataclasses.replace(calibration, alt=alts[1], caption=told),
    ]


def _spread(latent: LatentMap, Y: np.ndarray) -> np.ndarray:
    """The standard deviation of every column of a table, or its scale in the fit; 1 for none."""
    spread, scale = np.nanstd(Y, axis=0), latent.columns.scale
    return np.where(spread > 0.0, spread, np.where(scale > 0.0, scale, 1.0))
