"""One column of a table: what it holds, as numbers and as text.

Cells of a csv file arrive as text and are read here, so that a column means the same in a csv
and in a parquet file. Rows are counted from 1, without the header.
"""

import re
from typing import Literal

import numpy as np

from cavity.columns.frames import Series, floats
from cavity.numerics.text import quoted, shortened
from cavity.persistence.errors import CellError, DataError

Kind = Literal["numeric", "boolean", "categorical"]

_BOOLEAN = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+")
MISSING_WORDS = {"na", "n/a", "#n/a", "null", "none", "nil", "missing", "-", "?", "."}


def text(column: Series) -> Series:
    """The cells as text without surrounding blanks, null where empty."""
    import polars as pl

    return column.cast(pl.String).str.strip_chars().replace("", None)


def numbers(column: Series) -> np.ndarray:
    """The cells as float64, NaN where missing.

    Raises:
        DataError: naming the first cell that is not a number.
    """
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return floats(column).fill_null(np.nan).to_numpy().copy()
    refuse_other_types(column)
    plain = floats(column, strict=False) if column.dtype == pl.String else None
    if plain is not None and not plain.null_count():
        return plain.to_numpy().copy()
    cells = text(column)
    values = floats(cells, strict=False)
    wrong = np.flatnonzero((cells.is_not_null() & values.is_null()).to_numpy())
    if len(wrong):
        row = int(wrong[0])
        raise not_a_number(column.name, row, cells[row])
    return values.fill_null(np.nan).to_numpy().copy()


def booleans(column: Series) -> np.ndarray:
    """The cells as 0.0 and 1.0, NaN where missing; true, false, 1 and 0 are understood."""
    import polars as pl

    if column.dtype == pl.Boolean or column.dtype.is_numeric():
        values = numbers(column)
        wrong = np.flatnonzero(~(np.isnan(values) | (values == 0.0) | (values == 1.0)))
    else:
        refuse_other_types(column)
        cells = text(column).str.to_lowercase()
        values = cells.replace_strict(_BOOLEAN, default=None, return_dtype=pl.Float64)
        wrong = np.flatnonzero((cells.is_not_null() & values.is_null()).to_numpy())
        values = values.fill_null(np.nan).to_numpy().copy()
    if len(wrong):
        row = int(wrong[0])
        story = (
            f"{column[row]!r} is neither true nor false; the column holds true and false, a "
            "missing value is an empty cell"
        )
        raise CellError(column.name, row, story)
    return values


def distinct(column: Series) -> tuple[str, ...]:
    """The distinct texts of a column in alphabetical order, however many."""
    return tuple(sorted(text(column).drop_nulls().unique().to_list()))


def positions(column: Series, known: tuple[str, ...]) -> np.ndarray:
    """The place of each cell's text among known ones, one past the last if new, NaN if missing."""
    import polars as pl

    places = {name: float(i) for i, name in enumerate(known)}
    cells = text(column)
    place = cells.replace_strict(places, default=float(len(known)), return_dtype=pl.Float64)
    values = place.fill_null(np.nan).to_numpy().copy()
    values[cells.is_null().to_numpy()] = np.nan
    return values


def not_a_number(name: str, row: int, cell: str) -> CellError:
    """The error about a cell that should be a number."""
    if _DECIMAL_COMMA.fullmatch(cell):
        hint = f"write decimals with a point: {cell.replace(',', '.')}"
    elif cell.lower() in MISSING_WORDS:
        hint = "leave a missing value empty"
    else:
        out = f"--ignore {shortened(name)}"
        hint = f"correct the cell, or leave the column out with {out} when fitting"
    story = f"{quoted(cell)} is not a number, but the column is numeric; {hint}"
    return CellError(name, row, story)


def refuse_other_types(column: Series) -> None:
    """Lets numbers, truth values, text and categories pass."""
    import polars as pl

    if column.dtype.is_temporal():
        raise DataError(
            f"column '{column.name}' holds dates or times, and the model was fitted to other "
            "values; give it as it was in fitting"
        )
    plain = (pl.String, pl.Categorical, pl.Enum, pl.Null, pl.Boolean)
    if column.dtype not in plain and not column.dtype.is_numeric():
        raise DataError(
            f"column '{column.name}' has cells of type {column.dtype}; numbers, true and false, "
            f"and text can be used; leave it out with --ignore {column.name}"
        )
