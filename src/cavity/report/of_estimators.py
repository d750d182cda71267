"""Pages on fitted estimators and data in memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cavity.columns.warnings import EncodingWarnings
from cavity.estimators.base import AbstractPredictor
from cavity.estimators.embedding import GPEmbedding
from cavity.estimators.forecaster import GPForecaster
from cavity.estimators.frames import colour_name
from cavity.estimators.time_tables import TimeData
from cavity.numerics.callers import warn_caller
from cavity.report.forecast_page import write_forecast
from cavity.report.latent_page import write_map
from cavity.report.page import write_report
from cavity.tables.embedding_files import EmbeddingFiles
from cavity.tables.rows_files import RowsFiles
from cavity.tables.schema import Encoded
from cavity.tables.series_files import SeriesFiles

# The column of what colours a map, among the columns of an embedding.
COLOUR = "colour"


def rows_report(
    estimator: AbstractPredictor,
    path: str | Path,
    X: np.ndarray,
    y: np.ndarray | None,
    side: Mapping[str, np.ndarray],
) -> list[str]:
    """Writes the page of a regression or classification.

    Args:
        estimator: fitted.
        path: the file.
        X: inputs as numbers, (N, D).
        y: outputs or places of labels, (N, P); None where there are none.
        side: side data by name, (N,) each.

    Returns:
        The names of its figures.
    """
    encoded = encoded_rows(estimator.rows_of_fit_.inputs.features, X, y, side)
    return list(write_report(path, RowsFiles().contents(estimator), encoded))


def encoded_rows(
    features: tuple[str, ...], X: np.ndarray, y: np.ndarray | None, side: Mapping[str, np.ndarray]
) -> Encoded:
    """Rows in memory as those of a table.

    Args:
        features: names of the columns of X.
        X: inputs as numbers, (N, D).
        y: outputs or places of labels, (N, P); None where there are none.
        side: side data by name, (N,) each.
    """
    count = len(X)
    return Encoded(
        X=X,
        y=y,
        noise=side.get("noise_variance"),
        exposure=side.get("exposure"),
        kept=np.ones(count, bool),
        features=features,
        noticed=EncodingWarnings(count, count),
    )


def embedding_report(
    estimator: GPEmbedding, path: str | Path, Y: np.ndarray, colour: Sequence[Any] | None
) -> list[str]:
    """Writes the page of an embedding.

    Args:
        estimator: fitted.
        path: the file.
        Y: rows, (N, P), NaN where missing.
        colour: what colours the map, (N,); None for one colour.

    Returns:
        The names of its figures.

    Raises:
        ValueError: for colours of another number of rows.
    """
    import polars as pl

    fitted = EmbeddingFiles().contents(estimator)
    columns: dict[str, Any] = dict(zip(fitted.columns, Y.T, strict=True))
    name = None
    if colour is not None:
        if len(colour) != len(Y):
            raise ValueError(f"colour has {len(colour)} entries, X has {len(Y)} rows")
        name = colour_name(colour)
        name = name if name not in columns else f"{COLOUR} of rows"
        columns[name] = np.asarray(colour).tolist()
    table = pl.DataFrame(columns, nan_to_null=True)
    return list(write_map(path, fitted, table, name))


def series_report(estimator: GPForecaster, path: str | Path, data: TimeData) -> list[str]:
    """Writes the page of a time series; what must be known to read it is said in warnings.

    Args:
        estimator: fitted.
        path: the file.
        data: rows of the fit, rows that follow them, or both.

    Returns:
        The names of its figures.
    """
    import polars as pl

    fitted = SeriesFiles().contents(estimator)
    names = [c.name for c in (*fitted.schema.targets, *fitted.schema.inputs)]
    columns: dict[str, Any] = dict(zip(names, np.hstack([data.y, data.X]).T, strict=True))
    if fitted.series is not None:
        labels = np.array([str(label) for label in data.names or ()], object)
        columns[fitted.series.name] = [] if data.series is None else labels[data.series].tolist()
    figures, notes = write_forecast(path, fitted, pl.DataFrame(columns, nan_to_null=True))
    for note in notes:
        warn_caller(note)
    return figures
