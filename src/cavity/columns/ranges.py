"""Ranges of the rows of a fit, and rows of later tables that lie outside."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from cavity.columns.encoder import Encoder
from cavity.persistence.typed_values import Large

# A column is told of where chance alone would put as many rows outside in one of so many tables.
TABLES = 1_000
# Or where a row is so many widths of the range away from it: with heavy tails one often is one
# width away, and three in less than a tenth of tables.
FAR = 3.0


@dataclasses.dataclass(frozen=True)
class Range:
    """Range of a column of numbers or dates, and the rows that it is of."""

    low: float
    high: float
    rows: Large

    def __add__(self, other: "Range") -> "Range":
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Range(low, high, self.rows + other.rows)


Ranges = Mapping[str, Range]


@dataclasses.dataclass(frozen=True)
class Outside:
    """Rows of a table that lie outside the range of the fit in one column.

    Attributes:
        rows: of the fit.
        below: rows below its range.
        above: rows above.
        far: the largest distance from the range, in widths of it; 0 where all were equal.
    """

    rows: int
    below: int = 0
    above: int = 0
    far: float = 0.0

    def __add__(self, other: "Outside") -> "Outside":
        far = max(self.far, other.far)
        return Outside(self.rows, self.below + other.below, self.above + other.above, far)

    @property
    def count(self) -> int:
        """The number of rows outside."""
        return self.below + self.above

    def worth_a_word(self, rows: int, columns: int) -> bool:
        r"""True if the rows are too many to be outside by chance, or one is far away.

        Of rows like those of the fit some lie outside: each end of N rows is passed by k of n new
        ones, or more, with probability $\prod_{i<k} (n - i) / (N + n - i)$, whatever their
        distribution. That is to happen in one of a thousand tables, all columns and both ends
        together. One row is far enough by itself where it is more than three widths of the range
        away from it.

        Args:
            rows: of the table, n.
            columns: how many columns have a range.
        """
        places = np.arange(max(self.below, self.above))
        chance = np.prod((rows - places) / (self.rows + rows - places))
        return bool(self.far > FAR or 2 * columns * TABLES * chance < 1.0)


def ranges_of(encoder: Encoder, X: np.ndarray) -> dict[str, Range]:
    """The range of each column of numbers and dates, by name.

    Args:
        encoder: of the inputs.
        X: rows as numbers, (N, D).
    """
    return {
        name: Range(float(values.min()), float(values.max()), len(values))
        for name, values in _numbers(encoder, X)
        if len(values)
    }


def outside_of(ranges: Ranges, encoder: Encoder, X: np.ndarray) -> dict[str, Outside]:
    """Rows outside the ranges of the fit, by column; of all columns that have one.

    Args:
        ranges: of the fit.
        encoder: of the inputs.
        X: rows as numbers, (N, D).
    """
    return {
        name: _outside(ranges[name], values)
        for name, values in _numbers(encoder, X)
        if name in ranges
    }


def _outside(known: Range, values: np.ndarray) -> Outside:
    below, above = values < known.low, values > known.high
    width = known.high - known.low
    away = np.maximum(known.low - values, values - known.high).max(initial=0.0)
    far = float(away / width) if width > 0.0 else 0.0
    return Outside(known.rows, int(below.sum()), int(above.sum()), far)


def _numbers(encoder: Encoder, X: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The columns of numbers and dates, with their values."""
    starts = np.cumsum([0, *encoder.widths])
    return [
        (column.name, X[:, start])
        for column, start in zip(encoder.columns, starts[:-1], strict=True)
        if column.kind == "numeric"
    ]
