"""Pages that `cavity report` writes, by what a model file holds."""

from typing import Any

from cavity.cli.session import Session, usage
from cavity.cli.table_parts import report_warnings
from cavity.report.forecast_page import write_forecast
from cavity.report.latent_page import write_map
from cavity.report.page import write_report
from cavity.tables.embedding import TableEmbedding
from cavity.tables.files import read_table
from cavity.tables.forecasting import TableForecaster
from cavity.tables.schema import encode
from cavity.tables.table_model import TableModel


def rows_page(
    session: Session,
    fitted: TableModel,
    table: str,
    out: str,
    *,
    colour: str | None,
    drop_missing: bool,
) -> dict[str, Any]:
    """Writes the page of a regression or classification; gives entries of `--json`."""
    if colour is not None:
        raise usage("--colour", "it is for embeddings, and this model is none: leave it out")
    data = read_table(table)
    judged = all(target in data.columns for target in fitted.targets)
    encoded = encode(data, fitted.schema, drop_missing=drop_missing, need_targets=judged)
    report_warnings(session, table, encoded.noticed)
    return {"figures": list(write_report(out, fitted, encoded))} | encoded.noticed.record


def embedding_page(
    session: Session,
    fitted: TableEmbedding,
    table: str,
    out: str,
    *,
    colour: str | None,
    drop_missing: bool,
) -> dict[str, Any]:
    """Writes the page of an embedding; gives entries of `--json`."""
    if drop_missing:
        raise usage("--drop-missing", "an embedding has a use for rows with missing cells")
    return {"figures": write_map(out, fitted, read_table(table), colour)}


def series_page(
    session: Session,
    fitted: TableForecaster,
    table: str,
    out: str,
    *,
    colour: str | None,
    drop_missing: bool,
) -> dict[str, Any]:
    """Writes the page of a time series; gives entries of `--json`."""
    if drop_missing or colour is not None:
        option = "--drop-missing" if drop_missing else "--colour"
        raise usage(option, "a time series has no use for it: leave it out")
    figures, notes = write_forecast(out, fitted, read_table(table))
    for note in notes:
        session.warn(note)
    return {"figures": figures}
