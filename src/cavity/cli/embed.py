"""`cavity embed` and `impute`: what an embedding is good for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.cli.opened import opened_to_write
from cavity.cli.session import Outcome, Session
from cavity.columns.frames import DataFrame
from cavity.estimators.latent_map import filled
from cavity.numerics.text import plural
from cavity.persistence.errors import DataError
from cavity.tables.embedding import TableEmbedding, outputs
from cavity.tables.files import beside, read_table, write_predictions
from cavity.tables.schema import need_column


def embed(
    session: Session,
    model: str,
    table: str,
    out: str,
    *,
    density: bool = False,
    keep: Sequence[str] | None = None,
) -> Outcome:
    """Writes the latent point of every row of a table, with deviations."""
    fitted, frame, Y = _opened("embed", model, table, out)
    for name in keep or ():
        need_column(frame.columns, name)
    mean, std = fitted.map.transform(Y)
    columns: dict[str, Any] = {}
    for i in range(fitted.dims):
        columns |= {f"mean_{i + 1}": mean[:, i], f"std_{i + 1}": std[:, i]}
    if density:
        columns["log_density"] = fitted.map.log_density(Y)
    _note_empty(session, table, Y)
    columns = beside({name: frame[name] for name in keep or ()}, columns)
    write_predictions(out, columns)
    names = [*columns]
    record = {"model": model, "table": table, "out": out, "n_rows": len(Y), "columns": names}
    text = f"latent points of {plural(len(Y), 'row')} written to {out}: {', '.join(names)}"
    return Outcome(record, text)


def impute(session: Session, model: str, table: str, out: str, *, std: bool = False) -> Outcome:
    """Writes a table whose missing cells are predicted from the others of their row."""
    fitted, frame, Y = _opened("impute", model, table, out)
    missing = np.isnan(Y)
    _note_empty(session, table, Y)
    mean, deviation = filled(Y, fitted.map.reconstruct(Y))
    columns: dict[str, Any] = {name: frame[name].to_list() for name in frame.columns}
    columns |= dict(zip(fitted.columns, map(_as_whole, mean.T, Y.T), strict=True))
    if std:
        deviation[~missing] = np.nan
        for name, values in zip(fitted.columns, deviation.T, strict=True):
            if f"std_{name}" in columns:
                raise DataError(f"the table has a column 'std_{name}' already; rename it")
            columns[f"std_{name}"] = values
    write_predictions(out, columns)
    count = int(missing.sum())
    record: dict[str, Any] = {"model": model, "table": table, "out": out, "n_rows": len(Y)}
    record |= {"imputed": count, "columns": [*columns]}
    rows = plural(int(missing.any(axis=1).sum()), "row")
    text = f"{plural(count, 'missing cell')} in {rows} filled in; the table is in {out}"
    return Outcome(record, text)


def _as_whole(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Values as whole numbers where all that were seen are; but of zeros and ones chances stay."""
    seen = seen[~np.isnan(seen)]
    whole = np.all(seen == np.rint(seen)) and not np.all(np.isin(seen, (0.0, 1.0)))
    return np.rint(values).astype(int) if whole and np.all(np.abs(values) < 2**53) else values


def _opened(
    command: str, model: str, table: str, out: str
) -> tuple[TableEmbedding, DataFrame, np.ndarray]:
    """The model, the table, and its columns as numbers."""
    fitted: TableEmbedding = opened_to_write(model, command, out)
    frame = read_table(table)
    return fitted, frame, outputs(frame, fitted.schema)


def _note_empty(session: Session, table: str, Y: np.ndarray) -> None:
    """Says which rows have no value, and are like any row."""
    empty = np.flatnonzero(np.isnan(Y).all(axis=1))
    if len(empty):
        verb = "has" if len(empty) == 1 else "have"
        session.warn(
            f"{table}: {plural(len(empty), 'row')} {verb} no value in any column of the model "
            f"(the first is row {empty[0] + 1}) and can be anywhere"
        )
