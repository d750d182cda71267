"""Roles of the columns of a table in a model, decided from their contents."""

import dataclasses
from collections.abc import Callable, Sequence

from cavity.columns.column_types import Evidence, evidence
from cavity.columns.encoder import check_decimals, column_of, learn_encoder
from cavity.columns.frames import DataFrame
from cavity.columns.notation import dates_in
from cavity.persistence.errors import DataError
from cavity.tables.class_labels import classes_of
from cavity.tables.schema import Schema, need_column


@dataclasses.dataclass(frozen=True)
class Roles:
    """The columns that were named for a role; every other one is an input.

    Attributes:
        targets: the columns to predict.
        ignore: columns to leave out.
        noise_column: known noise variances of the rows.
        exposure_column: exposures of the rows, for counts.
        weight_column: weights of the rows.
    """

    targets: Sequence[str]
    ignore: Sequence[str] = ()
    noise_column: str | None = None
    exposure_column: str | None = None
    weight_column: str | None = None

    @property
    def sides(self) -> list[str]:
        """The columns of side data and weights."""
        named = (self.noise_column, self.exposure_column, self.weight_column)
        return [name for name in named if name is not None]

    @property
    def named(self) -> list[str]:
        """All columns that were named."""
        return [*self.targets, *self.ignore, *self.sides]

    def check(self, columns: Sequence[str]) -> None:
        """Refuses impossible roles of columns, as `learn_schema` does before it reads cells."""
        if not self.targets:
            raise DataError("no target: name at least one column to predict")
        for name in self.named:
            need_column(columns, name)
            if self.named.count(name) > 1:
                raise DataError(
                    f"column '{name}' is named twice among targets, ignored, noise, exposure and "
                    "weight columns; each column has one role"
                )
        if set(columns) <= set(self.named):
            raise DataError(
                "no input column is left: every column of the table is a target, ignored, or a "
                "noise, exposure or weight column"
            )


def learn_schema(table: DataFrame, roles: Roles) -> Schema:
    """Decides what each column of a table is.

    Args:
        table: what `read_table` gives.
        roles: the columns that have one.

    Raises:
        DataError: for unknown columns, columns with two roles, no inputs left, and columns that
            can be neither numbers nor categories.
    """
    roles.check(table.columns)
    return schema_from(table.columns, lambda name: evidence(table[name]), roles)


def schema_from(columns: Sequence[str], seen: Callable[[str], Evidence], roles: Roles) -> Schema:
    """The schema of a table from what its columns show.

    Args:
        columns: the names of all of them.
        seen: the evidence of a column.
        roles: the columns that have one.

    Raises:
        DataError: for columns that can be neither numbers nor categories.
    """
    targets, sides = roles.targets, roles.sides
    inputs = [name for name in columns if name not in roles.named]
    read = {name: seen(name) for name in (*inputs, *targets, *sides)}
    notations = {name: column.notation() for name, column in read.items()}
    for name in (*targets, *sides):
        if name in dates_in(notations):
            raise _refused_dates(name, "target" if name in targets else "column")
    for name in sides:
        if notations[name] is None:
            read[name].check_numbers()
    check_decimals([*read.values()])
    return Schema(
        inputs=learn_encoder([read[name] for name in inputs]).columns,
        targets=tuple(column_of(read[name]) for name in targets),
        noise_column=roles.noise_column,
        exposure_column=roles.exposure_column,
        ignored=tuple(roles.ignore),
        notations={name: n for name, n in notations.items() if n is not None},
    )


def _refused_dates(name: str, role: str) -> DataError:
    return DataError(
        f"the {role} '{name}' holds dates or times, and a model predicts numbers or classes; to "
        "predict when something happens, add a column with the days (or hours) since a date that "
        f"each row knows, name that one, and leave this one out with --ignore {name}"
    )


def with_classes(schema: Schema, table: DataFrame) -> Schema:
    """The schema with its targets read as classes."""
    table = schema.as_numbers(table)
    targets = (
        dataclasses.replace(c, categories=classes_of(table[c.name], c.kind))
        for c in schema.targets
    )
    return dataclasses.replace(schema, targets=tuple(targets))
