"""Roles of the columns of a table in a model, and the numbers that it takes from them.

Columns are matched by name; their order, and columns a model does not know, make no difference.
Rows are counted from 1 in every message, without the header.
"""

import contextlib
import dataclasses
import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cavity.columns import cells
from cavity.columns.dates import Dates
from cavity.columns.encoder import Column, Encoder, Unseen, complete_rows
from cavity.columns.frames import DataFrame
from cavity.columns.notation import Notation, dates_in, notation_from, notation_record
from cavity.columns.ranges import Ranges, outside_of, ranges_of
from cavity.columns.warnings import EncodingWarnings, refuse_empty
from cavity.inference.graph.rows import WEIGHT
from cavity.numerics.text import quoted, shortened
from cavity.persistence.errors import CellError, DataError
from cavity.persistence.typed_values import typed
from cavity.tables.class_labels import class_positions


@dataclasses.dataclass(frozen=True)
class Schema:
    """Columns that a model reads, and their conversion to numbers.

    Inputs in the order of the fitted table: a numeric column is one feature, a boolean one is 0
    or 1, a categorical one is a 0/1 feature per category. A target with classes is the position
    of its class among them; without, a numeric one is itself and a boolean one is 0 or 1.
    `notations` holds, by name, the columns whose cells are numbers after a conversion: dates, and
    numbers that are not written plainly, and `ranges` those of numbers and dates in the rows of
    the fit; files of before have none.
    """

    inputs: tuple[Column, ...]
    targets: tuple[Column, ...]
    noise_column: str | None = None
    exposure_column: str | None = None
    ignored: tuple[str, ...] = ()
    notations: Mapping[str, Notation] = dataclasses.field(default_factory=dict)
    ranges: Ranges = dataclasses.field(default_factory=dict)

    @property
    def dates(self) -> dict[str, Dates]:
        """The columns of dates and times, by name."""
        return dates_in(self.notations)

    @property
    def encoder(self) -> Encoder:
        """The conversion of the inputs to numbers."""
        return Encoder(self.inputs, self.notations)

    def as_numbers(self, table: DataFrame) -> DataFrame:
        """The table with numbers for the cells of columns that have a notation.

        Raises:
            DataError: naming the first cell that is not written as it was in fitting.
        """
        names = [name for name in self.notations if name in table.columns]
        return table.with_columns([self.encoder.as_numbers(table[name]) for name in names])

    def numbers_in(self, table: DataFrame, columns: Sequence[Column]) -> np.ndarray:
        """Some columns as numbers, (N, C), NaN where a cell is missing.

        Args:
            table: what `read_table` gives.
            columns: of the schema.

        Raises:
            DataError: for a column that is not there, and naming row and column of an infinite or
                unreadable cell.
        """
        names = [column.name for column in columns]
        for name in names:
            need_column(table.columns, name)
        if not len(table):
            raise DataError("the table has no rows")
        numbers, blocks = self.as_numbers(table.select(names)), [np.zeros((len(table), 0))]
        for column in columns:
            read = cells.booleans if column.kind == "boolean" else cells.numbers
            blocks.append(read(numbers[column.name])[:, None])
            refuse_infinite(column.name, blocks[-1])
        return np.hstack(blocks)

    def shown(self, name: str, values: np.ndarray) -> np.ndarray:
        """Numbers of a column as a reader wants to see them: those of dates are instants."""
        dates = self.dates.get(name)
        return values if dates is None else dates.shown(values)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns of X; `colour=red` for a category."""
        return self.encoder.features

    def with_rows(self, X: np.ndarray) -> "Schema":
        """The schema with ranges that are also those of further rows, as numbers (N, D)."""
        new = ranges_of(self.encoder, X)
        ranges = {n: self.ranges[n] + own if n in self.ranges else own for n, own in new.items()}
        return dataclasses.replace(self, ranges={**self.ranges, **ranges})

    def with_target_categories(self, categories: tuple[str, ...]) -> "Schema":
        """The schema with other categories of its only target."""
        (target,) = self.targets
        return dataclasses.replace(
            self, targets=(dataclasses.replace(target, categories=categories),)
        )

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON values."""
        notations = {name: notation_record(n) for name, n in self.notations.items()}
        return dataclasses.asdict(dataclasses.replace(self, notations={})) | {
            "notations": notations
        }

    @staticmethod
    def from_dict(record: Any) -> "Schema":
        """Inverse of `to_dict`, also after a round trip through JSON.

        Raises:
            WrongValue: if it is something else.
        """
        record = typed(record, dict[str, Any], "schema")
        notations = typed(record["notations"], dict[str, dict[str, Any]], "notations")
        found = {name: notation_from(r) for name, r in notations.items()}
        return typed({**record, "notations": found}, Schema, "schema")


def need_column(columns: Collection[str], name: str) -> None:
    """Complains about a column that is not there, with the closest that is."""
    if name in columns:
        return
    columns = list(columns)
    close = difflib.get_close_matches(name, columns, n=1)
    hint = f" (did you mean {quoted(close[0])}?)" if close else ""
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    listed = ", ".join(shortened(column) for column in columns[:20]) + more
    raise DataError(f"the table has no column {quoted(name)}{hint}; it has: {listed}")


# ------------------------------------------------------------------------------ encoding


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A table as numbers: the rows that were kept, in order.

    Args:
        X: inputs, (N, D).
        y: targets, (N, P); None where they were not asked for.
        noise: known noise variances, (N,), or None.
        exposure: exposures, (N,), or None.
        weight: weights of the rows, (N,), all positive, or None.
        kept: for each row of the table, whether it is among the N.
        features: names of the columns of X.
        noticed: what a user should hear about.
        first: rows of the table before these.
    """

    X: np.ndarray
    y: np.ndarray | None
    noise: np.ndarray | None
    exposure: np.ndarray | None
    kept: np.ndarray
    features: tuple[str, ...]
    noticed: EncodingWarnings
    first: int = 0
    weight: np.ndarray | None = None

    @property
    def side(self) -> dict[str, np.ndarray]:
        """Side data of the rows, as models take them."""
        both = {"noise_variance": self.noise, "exposure": self.exposure}
        return {name: values for name, values in both.items() if values is not None}

    @property
    def side_and_weight(self) -> dict[str, np.ndarray]:
        """Side data of the rows and their weights, as inference takes them."""
        return self.side if self.weight is None else self.side | {WEIGHT: self.weight}

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the rows in the table, from 1 on."""
        return self.first + np.flatnonzero(self.kept) + 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the user."""
        return self.noticed.warnings

    def table_row(self, i: int) -> int:
        """The number, from 1 on, that one of the N rows has in the table."""
        return int(self.numbers[i])


def encode(
    table: DataFrame,
    schema: Schema,
    *,
    drop_missing: bool = False,
    need_targets: bool = True,
    weight_column: str | None = None,
    first: int | None = None,
) -> Encoded:
    """The numbers a model takes from a table.

    Args:
        table: what `read_table` gives.
        schema: what `learn_schema` gave when the model was fitted.
        drop_missing: leave rows with a missing cell out instead of complaining.
        need_targets: read the targets too; otherwise they need not be there.
        weight_column: of weights of the rows; those of weight 0 are left out. None for none.
        first: of a part of a longer table, the rows before it; it may be left without rows.

    Raises:
        DataError: naming row and column of a missing, infinite or unreadable cell.
    """
    with _rows_before(first or 0):
        table = without_weightless(table, weight_column)
        targets = schema.targets if need_targets else ()
        sides = [
            name for name in (schema.noise_column, schema.exposure_column) if name is not None
        ]
        heavy = [] if weight_column is None else [weight_column]
        needed = [*(c.name for c in (*schema.inputs, *targets)), *sides, *heavy]
        columns = dict.fromkeys(table.columns)
        for name in needed:
            need_column(columns, name)
        rows, none = table.height, first is not None and counts_for_nothing(table, weight_column)
        table = table.clear() if none else table
        table = schema.as_numbers(table.select([*dict.fromkeys(needed)]))
        unseen: Unseen = {}
        inputs = [column.numbers(table[column.name], unseen) for column in schema.inputs]
        outputs = [_encode_target(table, column) for column in targets]
        side = {name: _encode_positive(table, name) for name in sides}
        weights = {name: _encode_weights(table, name) for name in heavy}
        side |= weights
        blocks = [*inputs, *outputs, *(side[name][:, None] for name in (*sides, *heavy))]
        part = first is not None
        kept = complete_rows(needed, blocks, drop_missing=drop_missing, part=part)
        for name, block in zip(needed, blocks, strict=True):
            refuse_infinite(name, block)
        complete = int(np.sum(kept))
        for name, values in weights.items():
            kept = kept & (values > 0.0)
            if complete and not part and not np.any(kept):
                raise weightless(name)
        known: dict[str | None, np.ndarray] = {name: v[kept] for name, v in side.items()}
        X = np.hstack(inputs)[kept]
        outside = outside_of(schema.ranges, schema.encoder, X) if schema.ranges else {}
        found = Encoded(
            X=X,
            y=np.hstack(outputs)[kept] if outputs else None,
            noise=known.get(schema.noise_column),
            exposure=known.get(schema.exposure_column),
            kept=kept,
            features=schema.features,
            noticed=EncodingWarnings(len(kept), complete, unseen, outside),
            first=first or 0,
            weight=known.get(weight_column),
        )
    if none:
        kept, noticed = np.zeros(rows, bool), EncodingWarnings(rows, rows)
        found = dataclasses.replace(found, kept=kept, noticed=noticed)
    if not part:
        refuse_empty(found.noticed)
    return found


@contextlib.contextmanager
def _rows_before(first: int) -> Iterator[None]:
    """Tells of cells by their rows in a longer table, in which so many come before."""
    try:
        yield
    except CellError as error:
        raise error.further_down(first) from None


def _encode_target(table: DataFrame, column: Column) -> np.ndarray:
    series = table[column.name]
    if not column.categories:
        read = cells.booleans if column.kind == "boolean" else cells.numbers
        return read(series)[:, None]
    position = class_positions(series, column.kind, column.categories)
    unknown = np.flatnonzero(position == len(column.categories))
    if len(unknown):
        row = int(unknown[0])
        story = (
            f"the class {quoted(cells.text(series)[row])} was not there in fitting; the classes "
            f"are: {', '.join(map(shortened, column.categories))}"
        )
        raise CellError(column.name, row, story)
    return position[:, None]


def _encode_positive(table: DataFrame, name: str) -> np.ndarray:
    values = cells.numbers(table[name])
    wrong = np.flatnonzero(values <= 0.0)
    if len(wrong):
        row = int(wrong[0])
        story = f"{values[row]:g} is not positive; noise variances and exposures are"
        raise CellError(name, row, story)
    return values


def weightless(column: str | None) -> DataError:
    """The error for a table none of whose rows count."""
    return DataError(f"every row has weight 0 in column {quoted(str(column))}")


def counts_for_nothing(table: DataFrame, weight_column: str | None) -> bool:
    """Whether all rows of a table have weight 0, so that what is in them plays no part.

    Raises:
        DataError: for weights that are no numbers.
    """
    if weight_column is None or weight_column not in table.columns or not table.height:
        return False
    return not np.any(_encode_weights(table, weight_column) != 0.0)


def without_weightless(table: DataFrame, weight_column: str | None) -> DataFrame:
    """The table, where the cells of rows of weight 0 are those of a row that counts.

    Rows keep their numbers, and what is wrong with one that does not count plays no part.

    Args:
        table: what `read_table` gives.
        weight_column: of weights of the rows; None for none.

    Raises:
        DataError: for weights that are no numbers.
    """
    if weight_column is None or weight_column not in table.columns:
        return table
    zero = _encode_weights(table, weight_column) == 0.0
    counting = np.flatnonzero(~zero)
    if not np.any(zero) or not len(counting):
        return table
    places = np.where(zero, counting[0], np.arange(len(zero)))
    return table[places].with_columns(table[weight_column])


def _encode_weights(table: DataFrame, name: str) -> np.ndarray:
    values = cells.numbers(table[name])
    wrong = np.flatnonzero(values < 0.0)
    if len(wrong):
        row = int(wrong[0])
        raise CellError(name, row, f"{values[row]:g} is negative; weights are at least 0")
    return values


def refuse_infinite(name: str, block: np.ndarray) -> None:
    """Refuses cells that are infinite, naming the first one."""
    infinite = np.flatnonzero(np.isinf(block).any(axis=1))
    if len(infinite):
        story = (
            "the value is infinite (or too large for a double); correct the cell or leave the "
            "row out"
        )
        raise CellError(name, int(infinite[0]), story)
