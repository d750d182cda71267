"""An embedding and what it makes of a table, on one HTML page that needs nothing else."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from cavity.columns import cells
from cavity.columns.column_types import evidence
from cavity.estimators.latent_map import LatentMap
from cavity.likelihoods.support import Support
from cavity.plots import BANDS
from cavity.report import figures, latent_figures
from cavity.report.convergence import unconverged
from cavity.report.figures import Outcome, Picture
from cavity.report.rendering import check_page, templates, write_page
from cavity.tables.embedding import TableEmbedding, outputs
from cavity.tables.schema import need_column

if TYPE_CHECKING:
    from polars import DataFrame
else:
    DataFrame = Any

# Of the check by entries held out: rows at the most, and the share of their entries.
MOST_ROWS, SHARE = 500, 0.2
FEW = 10  # entries below which there is no picture of them


class ColumnCheck(NamedTuple):
    """Scores of predictions of the held-out entries of a column.

    Attributes:
        name: of the column.
        count: entries that were held out.
        error: root mean square error of their predictions, in the units of the column.
        plain: that of the mean of the column in the fit.
        density: mean log density, in nats per entry.
        inside: the share in their 90 % intervals; NaN where values are no real numbers.
    """

    name: str
    count: int
    error: float
    plain: float
    density: float
    inside: float


class HeldOut(NamedTuple):
    """Entries that were predicted from others of their row.

    Attributes:
        columns: how that went for each column.
        error: root mean square error over all, in standard deviations of the columns.
        plain: that of the columns' means.
        pictures: of all entries, in standard deviations of their columns.
    """

    columns: list[ColumnCheck]
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
    from importlib.metadata import version

    check_page(path)
    colours = None if colour is None else colours_of(table, colour)
    Y = outputs(table, fitted.schema)
    pictures = [
        latent_figures.latent_map(fitted.map.transform(Y), colours, colour, len(Y)),
        latent_figures.relevance(fitted.map.relevance),
    ]
    check = held_out(fitted.map, Y, fitted.columns)
    template = templates().get_template("latent.html")
    text = template.render(
        version=version("cavity"),
        record=fitted.record,
        unconverged=unconverged(fitted.record),
        columns=_columns(fitted, Y),
        rows=len(Y),
        missing=int(np.isnan(Y).sum()),
        cells=Y.size,
        density=float(np.mean(fitted.map.log_density(Y))),
        parameters=_parameters(fitted),
        standardised=fitted.posterior.model.likelihood.support is Support.REAL,
        pictures=pictures,
        check=check,
    )
    write_page(path, text)
    drawn = [*pictures, *(check.pictures if check else [])]
    return [picture.name for picture in drawn]


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
    checks, real = [], latent.posterior.model.likelihood.support is Support.REAL
    for j in map(int, np.flatnonzero(hidden.any(axis=0))):
        at = hidden[:, j]
        checks.append(
            ColumnCheck(
                name=names[j],
                count=int(at.sum()),
                error=float(np.sqrt(np.mean(wrong[at, j] ** 2))),
                plain=float(np.sqrt(np.mean(plain[at, j] ** 2))),
                density=float(np.mean(density[at, j])),
                inside=float(np.mean(inside[at, j])) if real else np.nan,
            )
        )
    i, j = np.nonzero(hidden)
    unit, centre = scale[j], np.nanmean(Y, axis=0)[j]
    observed, mean = (rows[i, j] - centre) / unit, (found.mean[i, j] - centre) / unit
    std = found.std[i, j] / unit
    quantiles = mean[:, None] + std[:, None] * ndtri(np.array(BANDS))
    outcome = Outcome(observed, mean, std, quantiles, i + 1)
    error = float(np.sqrt(np.mean((observed - mean) ** 2)))
    pictures = []
    if real and len(observed) >= FEW:
        pictures = _of_entries(outcome)
    return HeldOut(checks, error, float(np.sqrt(np.mean(observed**2))), pictures)


def _of_entries(outcome: Outcome) -> list[Picture]:
    """Pictures of predictions of entries, in words for these."""
    predicted, calibration = figures.predictions(outcome), figures.calibration(outcome)
    caption = (
        "Each point is a hidden entry, about the mean of its column and in standard deviations "
        "of it; bars, where there are few, are 95 % intervals. On the dashed line a prediction "
        "is exact."
    )
    words = {
        name: getattr(calibration, name).replace("rows", "entries") for name in ("alt", "caption")
    }
    return [
        dataclasses.replace(
            predicted, alt=predicted.alt.replace("rows", "entries"), caption=caption
        ),
        dataclasses.replace(calibration, **words),
    ]


def _spread(latent: LatentMap, Y: np.ndarray) -> np.ndarray:
    """The standard deviation of every column of a table, or its scale in the fit; 1 for none."""
    spread, scale = np.nanstd(Y, axis=0), latent.columns.scale
    return np.where(spread > 0.0, spread, np.where(scale > 0.0, scale, 1.0))


def _columns(fitted: TableEmbedding, Y: np.ndarray) -> list[dict[str, Any]]:
    """The columns of the table in short."""
    constant = set(fitted.record["constant"])
    return [
        {
            "name": name,
            "missing": int(np.isnan(values).sum()),
            "low": None if np.all(np.isnan(values)) else float(np.nanmin(values)),
            "mean": None if np.all(np.isnan(values)) else float(np.nanmean(values)),
            "high": None if np.all(np.isnan(values)) else float(np.nanmax(values)),
            "note": "constant in the fit: no part in the model" if name in constant else "",
        }
        for name, values in zip(fitted.columns, Y.T, strict=True)
    ]


def _parameters(fitted: TableEmbedding) -> list[tuple[str, str, float]]:
    """The parameters number by number, but for inducing points: name, dimension, value."""
    rows: list[tuple[str, str, float]] = []
    for name, value in fitted.record["parameters"].items():
        array = np.asarray(value, float)
        if name.startswith("inducing."):
            continue
        several = array.shape == (fitted.dims,)
        places = [f"dimension {i + 1}" if several else "" for i in range(array.size)]
        rows += [(name, place, float(x)) for place, x in zip(places, array.ravel(), strict=True)]
    return rows
