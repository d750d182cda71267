"""The tables of a fit as numbers: in memory, or of a long table read part by part."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cavity.cli.asked import Asked
from cavity.cli.request import Request
from cavity.cli.session import Session
from cavity.cli.table_parts import Parts, note_index, report_warnings
from cavity.cli.task import (
    NAMED,
    check_classes,
    check_method,
    decide,
    encode_classes,
)
from cavity.columns.column_types import FEW_ROWS, REMEMBERED, Evidence, evidence
from cavity.columns.dates import look_like_days
from cavity.columns.warnings import EncodingWarnings, refuse_empty
from cavity.estimators.encoding import NumericInputs
from cavity.estimators.registry import CLASSIFICATION, name_for_classes, named_likelihood
from cavity.inference.graph.rows import WEIGHT
from cavity.learning.data.batches import Batches
from cavity.numerics.text import quoted
from cavity.persistence.errors import CellError, DataError
from cavity.tables.batched import LongTable, long_table, rows_at_a_time
from cavity.tables.class_labels import class_values, classes_of
from cavity.tables.files import read_table
from cavity.tables.roles import Roles, learn_schema, schema_from
from cavity.tables.row_cache import RowCache
from cavity.tables.schema import Encoded, Schema, encode, without_weightless
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
        spool: where the numbers of a long table are.
        batch: rows read at a time, of a long table.
    """

    schema: Schema
    train: Encoded
    test: Iterable[Encoded] | None
    task: str
    likelihood: str
    rows: int
    y_mean: np.ndarray
    y_var: np.ndarray
    spool: RowCache | None = None
    batch: int | None = None

    @property
    def inputs(self) -> NumericInputs:
        """The inputs of the training table, as estimators take them."""
        return NumericInputs(self.train.X, self.schema.encoder)

    @property
    def batches(self) -> Batches | None:
        """All rows of a long table."""
        spool, size = self.spool, self.batch
        if spool is None or size is None:
            return None
        return Batches(lambda: spool.batches(size), size=size)

    @property
    def batch_count(self) -> int | None:
        """The number of batches of a long table."""
        return None if self.batch is None else -(-self.rows // self.batch)


def read(session: Session, asked: Asked) -> Tables:
    """Opens and checks the tables.

    Raises:
        DataError: for anything in them that cannot be used.
    """
    request = asked.request
    note_index(session, request.table)
    rows = rows_at_a_time(request.table, request.batch_rows)
    found = _read_whole(session, asked) if rows is None else _read_long(session, asked, rows)
    for warning in _doubts(found):
        session.warn(warning)
    if request.test is None:
        return found
    size = rows_at_a_time(request.test, request.batch_rows)
    test = Parts(
        request.test,
        found.schema,
        size,
        drop_missing=request.drop_missing,
        weight_column=request.weight_column,
    )
    for part in test:
        _check_targets(found.schema, found.likelihood, part)
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


def _read_whole(session: Session, asked: Asked) -> Tables:
    request, method = asked.request, method_of(asked)
    table = without_weightless(read_table(request.table), request.weight_column)
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
    _check_targets(schema, likelihood, train)
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


def _check_targets(schema: Schema, likelihood: str, encoded: Encoded) -> None:
    targets = [column.name for column in schema.targets]
    count = len(schema.targets[0].categories) or 2
    check_targets(named_likelihood(likelihood, count), targets, encoded)


# ------------------------------------------------------------------------------ long tables


def _refuse_whole(asked: Asked) -> None:
    """Complains where a table that is read in batches is to be fitted by what needs all rows."""
    request, family = asked.request, asked.family
    if "--batch-rows" in family.unused:
        raise DataError(
            f"{request.table} is too large for memory and is read in batches, and {family.called} "
            "needs all rows at once; leave --model out, or fit some of the rows"
        )
    if "class_weights" in asked.given:
        raise DataError(
            f"{request.table} is too large for memory and is read in batches, and --class-weight "
            "needs all rows at once; name a column of weights with --weight-column instead"
        )
    whole = {None: "a full GP", "enough": "a search for enough points"}
    method, points = method_of(asked), asked.values.get("n_inducing", "auto")
    if method not in ("power_ep", "tied") or points in whole:
        needing = whole.get(points, f"the method '{method}'")
        raise DataError(
            f"{request.table} is too large for memory and is read in batches, and {needing} needs "
            "all rows at once; leave the option out, or fit some of the rows"
        )


def in_batches(session: Session, asked: Asked, tables: Tables) -> Asked:
    """The request as it can be done with a table that is read in batches."""
    if tables.likelihood == "gaussian" or method_of(asked) == "tied":
        return asked
    session.warn(
        f"{asked.request.table} is read in batches, and the method 'power_ep' keeps a site for "
        f"every row of the likelihood '{tables.likelihood}': 'tied' takes its place"
    )
    return asked.but(method="tied")


def _read_long(session: Session, asked: Asked, rows: int) -> Tables:
    """Two passes over the file: what columns hold, and their numbers, kept on disk."""
    request = asked.request
    _refuse_whole(asked)
    table = long_table(request.table, rows)
    roles = _roles(request)
    roles.check(table.columns)
    session.note(f"{request.table} is read {rows} rows at a time")
    read_columns = [name for name in table.columns if name not in (request.ignore or ())]
    seen = _evidence(table, read_columns, request.weight_column)
    schema = schema_from(table.columns, seen.__getitem__, roles)
    task, likelihood = decide(schema, request.task, asked.given.get("likelihood"))
    labels = task == CLASSIFICATION
    if labels:
        schema = schema.with_target_categories(_classes(table, schema))
    names = ("noise_variance", "exposure", WEIGHT)
    columns = (request.noise_column, request.exposure_column, request.weight_column)
    sides = tuple(name for name, column in zip(names, columns, strict=True) if column is not None)
    spool, noticed = RowCache(sides, len(schema.targets), request.seed), EncodingWarnings()
    ranged = schema
    for first, part in table.parts(*read_columns):
        encoded = encode(
            part,
            schema,
            drop_missing=request.drop_missing,
            weight_column=request.weight_column,
            first=first,
        )
        ranged = ranged.with_rows(encoded.X)
        if not labels:
            _check_targets(schema, likelihood, encoded)
        spool.add(encoded, labels=labels)
        noticed += encoded.noticed
    refuse_empty(noticed)
    schema = ranged
    report_warnings(session, request.table, noticed)
    if labels:
        classes = schema.targets[0].categories
        schema = schema.with_target_categories(tuple(classes[int(i)] for i in spool.seen))
        check_classes(schema, spool.rows)
        spool.recode()
        likelihood = name_for_classes(likelihood, len(schema.targets[0].categories))
    check_method(method_of(asked), likelihood, len(schema.targets[0].categories))
    count = spool.tally
    assert count is not None
    moments = (spool.rows, count.mean, count.var)
    train = _sampled(spool, schema)
    return Tables(schema, train, None, task, likelihood, *moments, spool, rows)


def _evidence(
    table: LongTable, columns: list[str], weight_column: str | None
) -> dict[str, Evidence]:
    """Evidence about the types of a long table's columns."""
    found: dict[str, Evidence] = {}
    for first, part in table.parts(*columns):
        try:
            part = without_weightless(part, weight_column)
        except CellError as error:
            raise error.further_down(first) from None
        for name in columns:
            new = evidence(part[name])
            found[name] = found[name] + new if name in found else new
    return found


def _classes(table: LongTable, schema: Schema) -> tuple[str, ...]:
    """The classes in the target column of a long table."""
    (target,) = schema.targets
    found: set[str] = set(target.categories)
    if not found:
        for _, part in table.parts(target.name):
            numbers = schema.as_numbers(part)
            found |= set(classes_of(numbers[target.name], target.kind))
            if len(found) > REMEMBERED:
                raise DataError(
                    f"the target '{target.name}' has more than {REMEMBERED} classes, too many to "
                    "tell apart; merge some of them, or leave --task out for regression"
                )
    names = tuple(found)
    values: list[Any] = class_values(target.kind, names)
    return tuple(name for _, name in sorted(zip(values, names, strict=True)))


def _sampled(spool: RowCache, schema: Schema) -> Encoded:
    """The sample as an encoded table."""
    X, y, side = spool.sample()
    known = dict(side or {})
    return Encoded(
        X=np.ascontiguousarray(X),
        y=y.reshape(len(X), -1),
        noise=known.get("noise_variance"),
        exposure=known.get("exposure"),
        kept=np.ones(len(X), bool),
        features=schema.features,
        noticed=EncodingWarnings(len(X), len(X)),
        weight=known.get(WEIGHT),
    )
