"""Columns of numbers that are written with marks between thousands, or with decimal commas."""

import dataclasses
from typing import Literal

import numpy as np

from cavity.columns import cells
from cavity.columns.date_evidence import Cell
from cavity.columns.frames import Series
from cavity.numerics.text import quoted
from cavity.persistence.errors import CellError, DataError

Decimal = Literal[".", ","]
DECIMALS: tuple[Decimal, Decimal] = (".", ",")
_SPACES = "[ \u00a0\u2009\u202f]"
_APOSTROPHES = "['\u2019]"
_EXAMPLE = {".": "1,234.5", ",": "1.234,5"}


def _pattern(decimal: Decimal) -> str:
    """A number with whole groups of three digits or none, and a decimal mark or none.

    Groups do not begin with a zero: 0.234 is no 234 where commas are decimal marks.
    """
    other = r"[.]" if decimal == "," else ","
    thousands = (other, _SPACES, _APOSTROPHES)
    grouped = "|".join(f"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+" for mark in thousands)
    fraction, exponent = f"[{decimal}][0-9]", "(?:[eE][+-]?[0-9]+)?"
    return f"^[+-]?(?:(?:{grouped}|[0-9]+)(?:{fraction}*)?|{fraction}+){exponent}$"


@dataclasses.dataclass(frozen=True)
class Numerals:
    """Notation of a column's numbers that are not plain.

    Attributes:
        decimal: the decimal mark. Groups of three digits may be set apart by the other mark, by
            spaces and by apostrophes.
    """

    decimal: Decimal

    def numbers(self, column: Series) -> Series:
        """The cells of a column as numbers, null where missing.

        Raises:
            CellError: for the first cell that is no such number.
        """
        import polars as pl

        if column.dtype != pl.String:
            return column
        cell = cells.text(column)
        values = read_numerals(cell, self.decimal)
        wrong = np.flatnonzero((cell.is_not_null() & values.is_null()).to_numpy())
        if len(wrong):
            row = int(wrong[0])
            story = (
                f"{quoted(cell[row])} is not a number as they are written in this column, such as "
                f"{_EXAMPLE[self.decimal]}; correct the cell (leave a missing one empty)"
            )
            raise CellError(column.name, row, story)
        return values


def read_numerals(cell: Series, decimal: Decimal) -> Series:
    """Texts as numbers with some decimal mark, null where they are none."""
    import polars as pl

    text = pl.col("cell")
    thousands = r"[., \u00a0\u2009\u202f'\u2019]".replace(decimal, "")
    digits = text.str.replace_all(thousands, "").str.replace(decimal, ".", literal=True)
    # what has no digit is a name such as NaN or inf
    plain = ~text.str.contains("[0-9]")
    number = pl.when(text.str.contains(_pattern(decimal))).then(digits).when(plain).then(text)
    frame = cell.to_frame("cell")
    return frame.select(number.cast(pl.Float64, strict=False)).to_series()


@dataclasses.dataclass(frozen=True)
class NumeralEvidence:
    """Evidence about the numbers in a column of text.

    Attributes:
        points: cells that are numbers with decimal points.
        commas: cells that are numbers with decimal commas.
        two_ways: the first cell that is one number with a decimal point and another with a
            decimal comma.
    """

    points: int = 0
    commas: int = 0
    two_ways: Cell | None = None

    def followed_by(self, other: "NumeralEvidence", rows: int) -> "NumeralEvidence":
        """Evidence about this column followed by `other` after so many rows."""
        later = other.two_ways and other.two_ways.further_down(rows)
        return NumeralEvidence(
            self.points + other.points, self.commas + other.commas, self.two_ways or later
        )

    def numerals(self, name: str, present: int) -> Numerals | None:
        """Notation of the numbers of a column that are not plain; None if it holds others.

        Args:
            name: of the column.
            present: cells that are not missing.

        Raises:
            DataError: if its cells are numbers in two ways.
        """
        if not present:
            return None
        if self.points == self.commas == present and self.two_ways is not None:
            raise self.in_two_ways(name)
        if self.points == present:
            return Numerals(".")
        return Numerals(",") if self.commas == present else None

    def in_two_ways(self, name: str) -> DataError:
        """The error about a column whose cells are numbers in two ways."""
        assert self.two_ways is not None
        point, comma = (_number(self.two_ways.text, decimal) for decimal in DECIMALS)
        return DataError(
            f"column '{name}' holds numbers that can be read in two ways: {self.two_ways} is "
            f"{point} or {comma}; write decimals with a point and nothing between thousands, or "
            f"leave the column out with --ignore {name}"
        )


def _number(text: str, decimal: Decimal) -> str:
    import polars as pl

    return f"{read_numerals(pl.Series([text]), decimal)[0]:.15g}"


def numeral_evidence(cell: Series, plain: Series) -> NumeralEvidence:
    """Evidence about numbers in cells of text.

    Args:
        cell: the cells as `cells.text` gives them.
        plain: their values for a plain reader, null where it reads none.
    """
    if not plain.null_count() > cell.null_count() and not _dotted(cell):
        count = len(cell) - cell.null_count()
        return NumeralEvidence(count, count)
    points = read_numerals(cell, ".").fill_null(plain)
    commas = read_numerals(cell, ",")
    differ = np.flatnonzero((points != commas).fill_null(value=False).to_numpy())
    first = Cell(int(differ[0]), cell[int(differ[0])]) if len(differ) else None
    counts = [len(cell) - values.null_count() for values in (points, commas)]
    return NumeralEvidence(counts[0], counts[1], first)


def _dotted(cell: Series) -> bool:
    return bool(cell.str.contains(".", literal=True).any())
