"""`cavity predict`, `evaluate`, `examine`, `report` and `show`: uses of a model file."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cavity.cli.engine_options import engine_of
from cavity.cli.examination import describe_examination, examination_record
from cavity.cli.opened import opened, opened_to_write
from cavity.cli.session import Outcome, Session, usage
from cavity.cli.table_parts import TableParts, report_warnings, scores
from cavity.cli.text import describe_metrics
from cavity.estimators.decisions import align_costs
from cavity.estimators.predictions import bayes_decision
from cavity.families.base import loaded
from cavity.numerics.text import plural, quoted
from cavity.persistence.atomic_file import why_not_writable
from cavity.persistence.errors import DataError
from cavity.tables.class_labels import class_values
from cavity.tables.files import beside, predictions_file, read_table
from cavity.tables.schema import Encoded, encode
from cavity.tables.table_model import TableModel, check_targets


def quantile_levels(given: str | None) -> tuple[float, ...]:
    """The probabilities in `0.05,0.95`; a usage error unless they lie between 0 and 1."""
    if given is None:
        return ()
    try:
        levels = tuple(float(part) for part in given.split(","))
    except ValueError:
        raise usage(
            "--quantiles", f"'{given}' is no list of probabilities such as 0.05,0.95"
        ) from None
    if not all(0.0 < level < 1.0 for level in levels):
        raise usage("--quantiles", f"probabilities lie between 0 and 1, given {given}")
    if len(set(levels)) < len(levels):
        raise usage("--quantiles", f"a probability is there twice: {given}")
    return levels


def predict(
    session: Session,
    model: str,
    table: str,
    out: str,
    *,
    quantiles: str | None = None,
    density: bool = False,
    costs: str | None = None,
    keep: Sequence[str] | None = None,
    drop_missing: bool = False,
    batch_rows: int | None = None,
    processes: int | None = None,
    scheduler: str | None = None,
) -> Outcome:
    """Writes predictions for every row of a table, part by part where it is long."""
    levels = quantile_levels(quantiles)
    fitted: TableModel = opened_to_write(model, "predict", out)
    if fitted.classes and levels:
        raise DataError(
            f"{model} tells {' and '.join(fitted.classes)} apart, and classes have no quantiles; "
            "leave --quantiles out"
        )
    if costs is not None and not fitted.classes:
        raise DataError(f"{model} is a regression; costs are for classes: leave --costs out")
    wrong = None if costs is None else read_costs(costs, fitted.classes)
    reading: dict[str, Any] = {"drop_missing": drop_missing, "need_targets": density}
    reading |= {"keep": [*dict.fromkeys(keep or ())]}
    names: list[str] = []
    with engine_of(session, processes, scheduler) as engine, predictions_file(out) as add:
        parts = TableParts(table, fitted.schema, batch_rows, engine=engine, **reading)
        for columns in parts.each(Predicted(fitted, levels, wrong, density)):
            add(columns)
            names = [*columns]
        record = parts.record
    report_warnings(session, table, parts.noticed, "with blank outputs")
    rows = parts.noticed.rows
    text = f"predictions of {plural(rows, 'row')} written to {out}: {', '.join(names)}"
    named = {"model": model, "table": table, "out": out, "n_rows": rows, "columns": names}
    return Outcome(named | record, text)


@dataclasses.dataclass(frozen=True)
class Predicted:
    """The columns of predict's file for some rows of a table.

    Attributes:
        fitted: the model.
        levels: of quantiles, of a regression.
        costs: of decisions between classes, (C, C); None where all errors count alike.
        density: whether to add log densities.
    """

    fitted: TableModel
    levels: tuple[float, ...]
    costs: np.ndarray | None
    density: bool

    def __call__(self, encoded: Encoded, kept: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of the table that are kept, and predictions."""
        if self.fitted.classes:
            found = class_columns(self.fitted, encoded, density=self.density, costs=self.costs)
        else:
            found = prediction_columns(self.fitted, encoded, self.levels, density=self.density)
        return beside(kept, found)


def prediction_columns(
    fitted: TableModel, encoded: Encoded, levels: tuple[float, ...], *, density: bool
) -> dict[str, np.ndarray]:
    """The columns of predict's file, one entry per row of the table, NaN in rows left out."""
    if density and not fitted.classes:
        check_targets(fitted.posterior.model.likelihood, fitted.targets, encoded)
    names = ["mean", "std", *(f"quantile_{level}" for level in levels)]
    names += ["log_density"] if density else []
    found = np.full((len(names), encoded.kept.size, len(fitted.targets)), np.nan)
    if len(encoded.X):
        out = fitted.predictive(encoded.X, encoded.side)
        parts = [out.mean, out.std]
        parts += [*np.moveaxis(out.quantiles(levels), -1, 0)] if levels else []
        if density:
            assert encoded.y is not None
            parts.append(out.log_density(encoded.y))
        found[:, encoded.kept] = np.stack(parts)
    return {
        name if len(fitted.targets) == 1 else f"{name}_{target}": found[j, :, i]
        for i, target in enumerate(fitted.targets)
        for j, name in enumerate(names)
    }


def read_costs(path: str, classes: tuple[str, ...]) -> np.ndarray:
    """The costs of deciding for a class (column) where another is true (row), (C, C).

    Raises:
        DataError: unless the table has a row and a column of finite numbers for each class.
    """
    table = read_table(path)
    try:
        costs = np.asarray(align_costs(table, classes), float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} holds no costs: {error}") from None
    if not np.all(np.isfinite(costs)):
        raise DataError(f"{path} must hold numbers only: what each decision costs")
    return costs


def class_columns(
    fitted: TableModel, encoded: Encoded, *, density: bool, costs: np.ndarray | None = None
) -> dict[str, Any]:
    """The columns of predict's file for classes, None and NaN in rows left out."""
    found = np.full((encoded.kept.size, len(fitted.classes)), np.nan)
    if len(encoded.X):
        found[encoded.kept] = fitted.log_probabilities(encoded.X)
    values = class_values(fitted.schema.targets[0].kind, fitted.classes)
    labels = [None] * encoded.kept.size
    rows = np.flatnonzero(encoded.kept)
    for row, place in zip(rows, bayes_decision(found[rows], costs), strict=True):
        labels[row] = values[int(place)]
    columns: dict[str, Any] = {"label": labels}
    columns |= {
        f"probability_{c}": np.exp(p) for c, p in zip(fitted.classes, found.T, strict=True)
    }
    if density:
        assert encoded.y is not None
        columns["log_density"] = np.full(encoded.kept.size, np.nan)
        truth = encoded.y[:, 0].astype(int)
        columns["log_density"][encoded.kept] = found[encoded.kept, truth]
    return columns


def evaluate(
    session: Session,
    model: str,
    table: str,
    *,
    drop_missing: bool = False,
    batch_rows: int | None = None,
    weight_column: str | None = None,
    processes: int | None = None,
    scheduler: str | None = None,
) -> Outcome:
    """Compares predictions with the targets of a table, part by part where it is long."""
    fitted: TableModel = opened(model, "evaluate").model
    how: dict[str, Any] = {"drop_missing": drop_missing, "weight_column": weight_column}
    weighed = fitted.record.get("weights", {}).get("column")
    if weighed is not None and weight_column is None:
        session.note(
            f"rows count once here; the fit weighed them by column {quoted(weighed)} "
            "(--weight-column)"
        )
    with engine_of(session, processes, scheduler) as engine:
        parts = TableParts(table, fitted.schema, batch_rows, engine=engine, **how)
        metrics, record = scores(fitted, parts), parts.record
    report_warnings(session, table, parts.noticed)
    rows = parts.noticed.kept
    named = {"model": model, "table": table, "n_rows": rows, "metrics": metrics}
    head = f"{plural(rows, 'row')} of {table}, {', '.join(fitted.targets)}:"
    return Outcome(named | record, f"{head}\n\n{describe_metrics(metrics)}")


def examine(session: Session, model: str, table: str, *, drop_missing: bool = False) -> Outcome:
    """Says whether the approximation of a model is good enough on a table."""
    from cavity.report.examination import examine_table

    fitted: TableModel = opened(model, "examine").model
    encoded = encode(read_table(table), fitted.schema, drop_missing=drop_missing)
    report_warnings(session, table, encoded.noticed)
    found = examine_table(fitted, encoded)
    record = {"model": model, "table": table, "n_rows": len(encoded.X)}
    record |= examination_record(found, encoded.numbers)
    head = f"{plural(len(encoded.X), 'row')} of {table}, {', '.join(fitted.targets)}:"
    return Outcome(record, f"{head}\n\n{describe_examination(found, encoded.numbers)}")


def report(
    session: Session,
    model: str,
    table: str,
    out: str,
    *,
    colour: str | None = None,
    drop_missing: bool = False,
) -> Outcome:
    """Writes one self-contained HTML page on a model and a table."""
    trouble = why_not_writable(Path(out))
    if trouble:
        raise DataError(trouble, kind="io")
    found = opened(model, "report")
    write = loaded(found.family.page)
    said = write(session, found.model, table, out, colour=colour, drop_missing=drop_missing)
    record = {"model": model, "table": table, "out": out} | said
    text = f"report with {plural(len(said['figures']), 'figure')} written to {out}"
    return Outcome(record, text)


def show(session: Session, model: str) -> Outcome:
    """Says what a model file holds."""
    found = opened(model, "show")
    return Outcome(found.model.record | {"model": model}, found.in_words)
