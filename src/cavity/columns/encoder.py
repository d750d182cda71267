"""Inputs of tables and data frames as numbers: what each column is, learned at the fit."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from cavity.columns import cells
from cavity.columns.column_types import Evidence, refuse_many_texts
from cavity.columns.frames import Series
from cavity.columns.kernel_columns import with_numbers
from cavity.columns.notation import Notation
from cavity.columns.numerals import Numerals
from cavity.numerics.text import plural
from cavity.persistence.errors import CellError

# By column, the cells whose category was not there in fitting: how many, and which.
Unseen = dict[str, tuple[int, frozenset[str]]]


@dataclasses.dataclass(frozen=True)
class Column:
    """A column by name and kind.

    `categories` are those of a categorical one, in order; of a target of a classification of any
    kind they are its classes, as text.
    """

    name: str
    kind: cells.Kind
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """The number of features that an input of this kind is."""
        return len(self.categories) if self.kind == "categorical" else 1

    @property
    def features(self) -> list[str]:
        """The names of its features; `colour=red` for a category."""
        if self.kind != "categorical":
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]

    def numbers(self, column: Series, unseen: Unseen) -> np.ndarray:
        """The features of the rows, (N, width), NaN where a cell is missing.

        Args:
            column: the cells, those with a notation as numbers.
            unseen: gets the categories that were not there in fitting, which are none of the
                known ones.

        Raises:
            DataError: naming the first cell that cannot be read.
        """
        if self.kind == "numeric":
            return cells.numbers(column)[:, None]
        if self.kind == "boolean":
            return cells.booleans(column)[:, None]
        position = cells.positions(column, self.categories)
        one_hot = (position[:, None] == np.arange(len(self.categories))).astype(float)
        one_hot[np.isnan(position)] = np.nan
        new = position == len(self.categories)
        if new.any():
            texts = frozenset(cells.text(column).filter(new).unique())
            unseen[self.name] = (int(new.sum()), texts)
        return one_hot


@dataclasses.dataclass(frozen=True)
class Encoder:
    """The columns that are inputs, in order, and their conversion to numbers.

    A numeric column is one feature, a boolean one is 0 or 1, a categorical one is a 0/1 feature
    per category.

    Attributes:
        columns: what they are.
        notations: by name, how cells become numbers that are dates, or are not written plainly.
    """

    columns: tuple[Column, ...]
    notations: Mapping[str, Notation] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def widths(self) -> list[int]:
        """The number of features that each column becomes."""
        return [column.width for column in self.columns]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def plain(self) -> bool:
        """True if all columns are numbers that are written plainly."""
        return not self.notations and all(column.kind == "numeric" for column in self.columns)

    @property
    def groups(self) -> tuple[int, ...] | None:
        """The column of each feature, by number; None where each column is one feature."""
        if max(self.widths, default=1) < 2:
            return None
        return tuple(int(i) for i in np.repeat(np.arange(len(self.columns)), self.widths))

    def as_numbers(self, column: Series) -> Series:
        """The column with numbers for its cells if it has a notation.

        Raises:
            DataError: naming the first cell that is not written as it was in fitting.
        """
        notation = self.notations.get(column.name)
        return column if notation is None else notation.numbers(column).alias(column.name)

    def with_features(self, kernel: str) -> str:
        """A kernel's text with each categorical column replaced by the numbers of its features."""
        places: dict[str, range] = {}
        start, features = 0, self.features
        for column in self.columns:
            if column.kind == "categorical" and column.name not in features:
                places[column.name] = range(start, start + column.width)
            start += column.width
        return with_numbers(kernel, places)


def learn_encoder(seen: Sequence[Evidence]) -> Encoder:
    """The encoder of columns that show this evidence.

    Raises:
        DataError: for columns that can be neither numbers nor categories.
    """
    notations = {column.name: column.notation() for column in seen}
    check_decimals(seen)
    kinds: list[cells.Kind] = [column.kind() for column in seen]
    both = list(zip(seen, kinds, strict=True))
    refuse_many_texts([column for column, kind in both if kind == "categorical"])
    found = {name: notation for name, notation in notations.items() if notation is not None}
    return Encoder(tuple(column_of(column) for column in seen), found)


def column_of(seen: Evidence) -> Column:
    """The column that shows this evidence.

    Raises:
        DataError: for one that can be neither numbers nor categories.
    """
    kind = seen.kind()
    return Column(seen.name, kind, seen.distinct() if kind == "categorical" else ())


def check_decimals(seen: Sequence[Evidence]) -> None:
    """Refuses numbers with points in a table of decimal commas if they may be thousands."""
    notations = [column.notation() for column in seen]
    if Numerals(",") not in notations:
        return
    for column, notation in zip(seen, notations, strict=True):
        if notation is None and column.may_have_commas:
            raise column.numerals.in_two_ways(column.name)


def complete_rows(
    names: Sequence[str], blocks: Sequence[np.ndarray], *, drop_missing: bool, part: bool = False
) -> np.ndarray:
    """True for rows that have every cell; raises an error at a missing cell unless rows may go.

    Args:
        names: of the columns.
        blocks: their numbers, (N, width) each.
        drop_missing: whether rows may go.
        part: whether the rows are a part of a longer table.
    """
    missing = np.column_stack([np.isnan(block).any(axis=1) for block in blocks])
    incomplete = np.asarray(missing.any(axis=1))
    if incomplete.any() and not drop_missing:
        row = int(np.flatnonzero(incomplete)[0])
        name = names[int(np.flatnonzero(missing[row])[0])]
        have = "has" if incomplete.sum() == 1 else "have"
        of = plural(len(incomplete), "row") + (" read together" if part else "")
        story = (
            f"the cell is missing ({incomplete.sum()} of {of} {have} a missing cell); fill them "
            "in, or leave such rows out with --drop-missing"
        )
        raise CellError(name, row, story)
    return ~incomplete
