"""What the columns of a table are to a model, and the numbers it takes from them.

Columns are matched by name; their order, and columns a model does not know, make no difference.
Rows are counted from 1 in every message, without the header.
"""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.interfaces import columns as cells
from cavity.interfaces.classes import class_positions, classes_of
from cavity.interfaces.errors import DataError
from cavity.numerics.words import counted

if TYPE_CHECKING:
    from polars import DataFrame
else:
    DataFrame = Any


@dataclasses.dataclass(frozen=True)
class Column:
    """A column by name and kind.

    `categories` are those of a categorical one, in order; of a target of a classification of any
    kind they are its classes, as text.
    """

    name: str
    kind: cells.Kind
    categories: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Schema:
    """Which columns a model reads, and how they become numbers.

    Inputs in the order of the fitted table: a numeric column is one feature, a boolean one is 0
    or 1, a categorical one is a 0/1 feature per category. A target with classes is the position
    of its class among them; without, a numeric one is itself and a boolean one is 0 or 1.
    """

    inputs: tuple[Column, ...]
    targets: tuple[Column, ...]
    noise_column: str | None = None
    exposure_column: str | None = None
    ignored: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns of X; `colour=red` for a category."""
        return tuple(name for column in self.inputs for name in _features(column))

    def with_target_categories(self, categories: tuple[str, ...]) -> "Schema":
        """The schema with other categories of its only target."""
        (target,) = self.targets
        return dataclasses.replace(
            self, targets=(dataclasses.replace(target, categories=categories),)
        )

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON values."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> "Schema":
        """Inverse of `to_dict`, also after a round trip through JSON."""

        def columns(records: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
            return tuple(
                Column(r["name"], r["kind"], tuple(r.get("categories", ()))) for r in records
            )

        return Schema(
            inputs=columns(record["inputs"]),
            targets=columns(record["targets"]),
            noise_column=record.get("noise_column"),
            exposure_column=record.get("exposure_column"),
            ignored=tuple(record.get("ignored", ())),
        )


def _features(column: Column) -> list[str]:
    if column.kind != "categorical":
        return [column.name]
    return [f"{column.name}={category}" for category in column.categories]


def learn_schema(
    table: DataFrame,
    targets: Sequence[str],
    ignore: Sequence[str] = (),
    noise_column: str | None = None,
    exposure_column: str | None = None,
) -> Schema:
    """Decides what each column of a table is; every column not named is an input.

    Args:
        table: what `read_table` gives.
        targets: the columns to predict.
        ignore: columns to leave out.
        noise_column: known noise variances of the rows.
        exposure_column: exposures of the rows, for counts.

    Raises:
        DataError: for unknown columns, columns with two roles, no inputs left, and columns that
            can be neither numbers nor categories.
    """
    roles = [*targets, *ignore, *(c for c in (noise_column, exposure_column) if c is not None)]
    if not targets:
        raise DataError("no target: name at least one column to predict")
    for name in roles:
        _need(table, name)
        if roles.count(name) > 1:
            raise DataError(
                f"column '{name}' is named twice among targets, ignored, noise and exposure "
                "columns; each column has one role"
            )
    inputs = [name for name in table.columns if name not in roles]
    if not inputs:
        raise DataError(
            "no input column is left: every column of the table is a target, ignored, or a "
            "noise or exposure column"
        )
    for name in (noise_column, exposure_column):
        if name is not None:
            cells.numbers(table[name])
    return Schema(
        inputs=tuple(_learn_column(table, name) for name in inputs),
        targets=tuple(_learn_target(table, name) for name in targets),
        noise_column=noise_column,
        exposure_column=exposure_column,
        ignored=tuple(ignore),
    )


def _learn_column(table: DataFrame, name: str) -> Column:
    kind = cells.kind(table[name])
    return Column(name, kind, cells.categories(table[name]) if kind == "categorical" else ())


def _learn_target(table: DataFrame, name: str) -> Column:
    kind = cells.kind(table[name])
    return Column(name, kind, cells.distinct(table[name]) if kind == "categorical" else ())


def with_classes(schema: Schema, table: DataFrame) -> Schema:
    """The schema with its targets read as classes."""
    targets = (
        dataclasses.replace(c, categories=classes_of(table[c.name], c.kind))
        for c in schema.targets
    )
    return dataclasses.replace(schema, targets=tuple(targets))


def _need(table: DataFrame, name: str) -> None:
    """Complains about a column that is not there, with the closest that is."""
    if name in table.columns:
        return
    close = difflib.get_close_matches(name, table.columns, n=1)
    hint = f" (did you mean '{close[0]}'?)" if close else ""
    more = f" and {table.width - 20} more" if table.width > 20 else ""
    listed = ", ".join(table.columns[:20]) + more
    raise DataError(f"the table has no column '{name}'{hint}; it has: {listed}")


# ------------------------------------------------------------------------------ encoding


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A table as numbers: the rows that were kept, in order.

    Args:
        X: inputs, (N, D).
        y: targets, (N, P); None where they were not asked for.
        noise: known noise variances, (N,), or None.
        exposure: exposures, (N,), or None.
        kept: for each row of the table, whether it is among the N.
        features: names of the columns of X.
        warnings: what a user should hear about.
    """

    X: np.ndarray
    y: np.ndarray | None
    noise: np.ndarray | None
    exposure: np.ndarray | None
    kept: np.ndarray
    features: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def side(self) -> dict[str, np.ndarray]:
        """Side data of the rows, as models take them."""
        both = {"noise_variance": self.noise, "exposure": self.exposure}
        return {name: values for name, values in both.items() if values is not None}

    def table_row(self, i: int) -> int:
        """The number, from 1 on, that one of the N rows has in the table."""
        return int(np.flatnonzero(self.kept)[i]) + 1


def encode(
    table: DataFrame, schema: Schema, *, drop_missing: bool = False, need_targets: bool = True
) -> Encoded:
    """The numbers a model takes from a table.

    Args:
        table: what `read_table` gives.
        schema: what `learn_schema` gave when the model was fitted.
        drop_missing: leave rows with a missing cell out instead of complaining.
        need_targets: read the targets too; otherwise they need not be there.

    Raises:
        DataError: naming row and column of a missing, infinite or unreadable cell.
    """
    targets = schema.targets if need_targets else ()
    sides = [name for name in (schema.noise_column, schema.exposure_column) if name is not None]
    needed = [*(c.name for c in (*schema.inputs, *targets)), *sides]
    for name in needed:
        _need(table, name)
    warnings: list[str] = []
    inputs = [_encode_input(table, column, warnings) for column in schema.inputs]
    outputs = [_encode_target(table, column) for column in targets]
    side = {name: _encode_positive(table, name) for name in sides}
    blocks = [*inputs, *outputs, *(side[name][:, None] for name in sides)]
    kept = _complete_rows(needed, blocks, drop_missing=drop_missing)
    for name, block in zip(needed, blocks, strict=True):
        _refuse_infinite(name, block)
    return Encoded(
        X=np.hstack(inputs)[kept],
        y=np.hstack(outputs)[kept] if outputs else None,
        noise=side[schema.noise_column][kept] if schema.noise_column is not None else None,
        exposure=side[schema.exposure_column][kept]
        if schema.exposure_column is not None
        else None,
        kept=kept,
        features=schema.features,
        warnings=tuple(warnings),
    )


def _encode_input(table: DataFrame, column: Column, warnings: list[str]) -> np.ndarray:
    series = table[column.name]
    if column.kind == "numeric":
        return cells.numbers(series)[:, None]
    if column.kind == "boolean":
        return cells.booleans(series)[:, None]
    position = cells.positions(series, column.categories)
    one_hot = (position[:, None] == np.arange(len(column.categories))).astype(float)
    one_hot[np.isnan(position)] = np.nan
    unseen = position == len(column.categories)
    if unseen.any():
        new = cells.text(series).filter(unseen).unique().sort().to_list()
        listed = ", ".join(f"'{cell}'" for cell in new[:5]) + (", ..." if len(new) > 5 else "")
        hold = "holds" if unseen.sum() == 1 else "hold"
        warnings.append(
            f"column '{column.name}': {unseen.sum()} of {counted(len(unseen), 'row')} {hold} "
            f"categories that were not there in fitting ({listed}); they count as none of the "
            "known ones"
        )
    return one_hot


def _encode_target(table: DataFrame, column: Column) -> np.ndarray:
    series = table[column.name]
    if not column.categories:
        read = cells.booleans if column.kind == "boolean" else cells.numbers
        return read(series)[:, None]
    position = class_positions(series, column.kind, column.categories)
    unknown = np.flatnonzero(position == len(column.categories))
    if len(unknown):
        row = int(unknown[0])
        raise DataError(
            f"column '{column.name}', row {row + 1}: the class '{cells.text(series)[row]}' was "
            f"not there in fitting; the classes are: {', '.join(column.categories)}"
        )
    return position[:, None]


def _encode_positive(table: DataFrame, name: str) -> np.ndarray:
    values = cells.numbers(table[name])
    wrong = np.flatnonzero(values <= 0.0)
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"column '{name}', row {row + 1}: {values[row]:g} is not positive; noise variances "
            "and exposures are"
        )
    return values


def _complete_rows(
    names: Sequence[str], blocks: Sequence[np.ndarray], *, drop_missing: bool
) -> np.ndarray:
    """Which rows have every cell; an error naming the first missing cell unless they may go."""
    missing = np.column_stack([np.isnan(block).any(axis=1) for block in blocks])
    incomplete = np.asarray(missing.any(axis=1))
    if incomplete.any() and not drop_missing:
        row = int(np.flatnonzero(incomplete)[0])
        name = names[int(np.flatnonzero(missing[row])[0])]
        have = "has" if incomplete.sum() == 1 else "have"
        raise DataError(
            f"column '{name}', row {row + 1}: the cell is missing ({incomplete.sum()} of "
            f"{counted(len(incomplete), 'row')} {have} a missing cell); fill them in, or leave "
            "such rows out with --drop-missing"
        )
    if incomplete.all():
        raise DataError(f"every row has a missing cell ({len(incomplete)} in all): none is left")
    return ~incomplete


def _refuse_infinite(name: str, block: np.ndarray) -> None:
    infinite = np.flatnonzero(np.isinf(block).any(axis=1))
    if len(infinite):
        raise DataError(
            f"column '{name}', row {int(infinite[0]) + 1}: the value is infinite (or too large "
            "for a double); correct the cell or leave the row out"
        )
