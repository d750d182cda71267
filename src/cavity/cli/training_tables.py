"""The tables of a fit as numbers: in memory, or of a long table read part by part."""

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from cavity.cli.asked import Asked
from cavity.cli.long_tables import LongRows, LongTables, accepted, refuse_whole
from cavity.cli.request import Request
from cavity.cli.session import Session
from cavity.cli.table_parts import TableParts, batch_size, note_index, report_warnings
from cavity.cli.task import (
    NAMED,
    check_classes,
    check_method,
    decide,
    encode_classes,
)
from cavity.columns.column_types import FEW_ROWS
from cavity.columns.dates import look_like_days
from cavity.columns.warnings import refuse_empty
from cavity.estimators.encoding import NumericInputs
from cavity.estimators.registry import CLASSIFICATION, name_for_classes, named_likelihood
from cavity.learning.engines.base import AbstractEngine
from cavity.numerics.text import quoted
from cavity.persistence.errors import DataError
from cavity.tables.batched import table_files
from cavity.tables.files import read_table
from cavity.tables.roles import Roles, learn_schema, schema_from
from cavity.tables.row_source import Reading
from cavity.tables.schema import Encoded, Schema, encode, weightless, without_weightless
from cavity.tables.survey import RowSurvey
from cavity.tables.table_model import check_targets


@dataclasses.dataclass(frozen=True)
class Tables:
    """The tables of a fit as numbers, what their columns are, and what to do with them.

    Attributes:
        schema: what the columns are.
        train: all rows; of a long table a sample.
        test: the table to evaluate on, in parts.
        task: "regression" or "classification".
        likelihood: its name.
        rows: rows of the training table.
        y_mean: the mean of each target, (P,).
        y_var: its variance, (P,).
        long: the rows of a long table.
    """

    schema: Schema
    train: Encoded
    test: TableParts | None
    task: str
    likelihood: str
    rows: int
    y_mean: np.ndarray
    y_var: np.ndarray
    long: LongRows | None = None

    @property
    def inputs(self) -> NumericInputs:
        """The inputs of the training table, as estimators take them."""
        return NumericInputs(self.train.X, self.schema.encoder)


def read(session: Session, asked: Asked, engine: AbstractEngine | None) -> Tables:
    """Opens and checks the tables.

    Args:
        session: for warnings and notes.
        asked: what is asked for.
        engine: what works on parts of the tables; None for this process.

    Raises:
        DataError: for anything in them that cannot be used.
    """
    request = asked.request
    note_index(session, request.table)
    files = table_files(request.table)
    size = batch_size(files, request.batch_rows, engine)
    if size is None:
        found = _read_whole(session, asked, files[0])
    else:
        table = LongTables(files, size, engine)
        try:
            found = _read_long(session, asked, table)
        except (DataError, KeyboardInterrupt):
            table.drop()
            raise
    for warning in _doubts(found):
        session.warn(warning)
    if request.test is None:
        return found
    test = TableParts(
        request.test,
        found.schema,
        request.batch_rows,
        engine=engine,
        drop_missing=request.drop_missing,
        weight_column=request.weight_column,
    )
    for _ in test.each(TargetCheck(found.schema, found.likelihood)):
        pass
    report_warnings(session, request.test, test.noticed)
    return dataclasses.replace(found, test=test)


def _doubts(tables: Tables) -> Iterator[str]:
    """Inputs that may not be meant as they are read."""
    start = 0
    for column in tables.schema.inputs:
        name, count, values = column.name, len(column.categories), tables.train.X[:, start]
        start += column.width
        if column.kind == "categorical" and count == 1:
            yield f"column '{name}' holds '{column.categories[0]}' in every row"
        if count > FEW_ROWS and 2 * count > tables.rows:
            yield (
                f"column '{name}' holds {count} different texts in {tables.rows} rows and becomes "
                "as many inputs; if these are names, identifiers or free text, leave it out with "
                f"--ignore {name}"
            )
        if name not in tables.schema.notations and look_like_days(values):
            yield (
                f"column '{name}' holds numbers such as {values[0]:.0f}, which are no dates to a "
                "model: they jump at the end of a month; if they are dates, write them as "
                "2020-12-31"
            )


def _read_whole(session: Session, asked: Asked, path: str) -> Tables:
    request, method = asked.request, method_of(asked)
    table = without_weightless(read_table(path), request.weight_column)
    schema = learn_schema(table, _roles(request))
    task, likelihood = decide(schema, request.task, asked.given.get("likelihood"))
    how: dict[str, Any] = {
        "drop_missing": request.drop_missing,
        "weight_column": request.weight_column,
    }
    if task == CLASSIFICATION:
        schema, train = encode_classes(table, schema, **how)
        train = _with_class_weights(train, schema, asked)
        count = len(schema.targets[0].categories)
        likelihood = name_for_classes(likelihood, count)
        check_method(method, likelihood, count)
    else:
        _refuse_class_weights(asked, schema)
        check_method(method, likelihood)
        train = encode(table, schema, **how)
    report_warnings(session, request.table, train.noticed)
    TargetCheck(schema, likelihood)(train)
    assert train.y is not None
    schema = schema.with_rows(train.X)
    mean = np.average(train.y, axis=0, weights=train.weight)
    var = np.average((train.y - mean) ** 2, axis=0, weights=train.weight)
    return Tables(schema, train, None, task, likelihood, len(train.y), mean, var)


def _refuse_class_weights(asked: Asked, schema: Schema) -> None:
    if "class_weights" in asked.given:
        raise DataError(
            f"--class-weight is for classes, and the target '{schema.targets[0].name}' is of "
            "numbers: leave it out, or give --task classification"
        )


def _with_class_weights(train: Encoded, schema: Schema, asked: Asked) -> Encoded:
    """The rows with the weights of their classes beside their own.

    Raises:
        DataError: for a weight of what is no class of the table.
    """
    given = asked.given.get("class_weights")
    if given is None:
        return train
    assert train.y is not None
    names, places = schema.targets[0].categories, train.y[:, 0].astype(int)
    counts = np.bincount(places, minlength=len(names))
    if given == "balanced":
        each = len(places) / (len(names) * np.maximum(counts, 1.0))
    else:
        strange = [name for name in given if name not in names]
        if strange:
            listed = ", ".join(map(quoted, names[:NAMED]))
            raise DataError(
                f"--class-weight has a weight for {quoted(strange[0])}, which is no class of the "
                f"target '{schema.targets[0].name}'; they are: {listed}"
            )
        each = np.array([given.get(name, 1.0) for name in names])
    own = each[places] if train.weight is None else each[places] * train.weight
    return dataclasses.replace(train, weight=own)


def method_of(asked: Asked) -> str:
    """The name of the method, of families that have one method too."""
    return asked.values.get("method", "power_ep")


def _roles(request: Request) -> Roles:
    columns = (request.noise_column, request.exposure_column, request.weight_column)
    return Roles(request.targets or (), request.ignore or (), *columns)


@dataclasses.dataclass(frozen=True)
class TargetCheck:
    """Refuses targets that a likelihood does not take.

    Attributes:
        schema: what the columns are.
        likelihood: its name.
    """

    schema: Schema
    likelihood: str

    def __call__(self, encoded: Encoded, kept: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Of some rows.

        Raises:
            DataError: naming column and row of the first one.
        """
        targets = [column.name for column in self.schema.targets]
        count = len(self.schema.targets[0].categories) or 2
        check_targets(named_likelihood(self.likelihood, count), targets, encoded)


def _read_long(session: Session, asked: Asked, table: LongTables) -> Tables:
    """Two passes over the table: what columns hold, and their numbers, which are kept."""
    request = asked.request
    refuse_whole(asked, table.files)
    roles = _roles(request)
    roles.check(table.columns)
    session.note(f"{request.table} is read {table.size} rows at a time")
    read_columns = tuple(name for name in table.columns if name not in (request.ignore or ()))
    seen = table.columns_seen(read_columns, request.weight_column)
    with table.blamed(seen.rows):
        schema = schema_from(table.columns, seen.evidence.__getitem__, roles)
    task, likelihood = decide(schema, request.task, asked.given.get("likelihood"))
    labels = task == CLASSIFICATION
    if labels:
        schema = schema.with_target_categories(table.classes(schema))
    survey = RowSurvey(
        table.fit,
        Reading(schema, request.drop_missing, request.weight_column),
        table.starts(seen.rows),
        request.seed,
        labels,
        accepted if labels else TargetCheck(schema, likelihood),
    )
    found = table.rows_seen(survey)
    refuse_empty(found.noticed)
    schema = dataclasses.replace(schema, ranges=found.ranges)
    report_warnings(session, request.table, found.noticed)
    rows, places = sum(found.lengths), None
    if not rows:
        raise weightless(request.weight_column)
    if labels:
        there = sorted(found.sample.classes)
        classes = schema.targets[0].categories
        schema = schema.with_target_categories(tuple(classes[int(i)] for i in there))
        check_classes(schema, rows)
        places = np.zeros(len(classes))
        places[np.array(there, int)] = np.arange(len(there))
        likelihood = name_for_classes(likelihood, len(schema.targets[0].categories))
    check_method(method_of(asked), likelihood, len(schema.targets[0].categories))
    assert found.tally is not None
    moments = (rows, found.tally.mean, found.tally.var)
    long = table.as_numbers(survey, found, places)
    return Tables(schema, long.sample, None, task, likelihood, *moments, long)
