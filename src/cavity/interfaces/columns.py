"""One column of a table: what it holds, as numbers and as text.

Cells of a csv file arrive as text and are read here, so that a column means the same in a csv
and in a parquet file. Rows are counted from 1, without the header.
"""

import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cavity.interfaces.errors import DataError

if TYPE_CHECKING:
    from polars import Series
else:
    Series = Any

Kind = Literal["numeric", "boolean", "categorical"]

MOSTLY_NUMERIC = 0.8  # from this share of numbers on, the other cells are taken for mistakes
MOST_CATEGORIES = 100
FEW_ROWS = 10  # up to here, text that differs in every row may still be a category

_BOOLEAN = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}([T ].*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+")
_MISSING_WORDS = {"na", "n/a", "#n/a", "null", "none", "nil", "missing", "-", "?", "."}


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
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
    _refuse_other_types(column)
    cells = text(column)
    values = cells.cast(pl.Float64, strict=False)
    wrong = np.flatnonzero((cells.is_not_null() & values.is_null()).to_numpy())
    if len(wrong):
        row = int(wrong[0])
        raise DataError(not_a_number(column.name, row, cells[row]))
    return values.fill_null(np.nan).to_numpy().copy()


def booleans(column: Series) -> np.ndarray:
    """The cells as 0.0 and 1.0, NaN where missing; true, false, 1 and 0 are understood."""
    import polars as pl

    if column.dtype == pl.Boolean or column.dtype.is_numeric():
        values = numbers(column)
        wrong = np.flatnonzero(~(np.isnan(values) | (values == 0.0) | (values == 1.0)))
    else:
        _refuse_other_types(column)
        cells = text(column).str.to_lowercase()
        values = cells.replace_strict(_BOOLEAN, default=None, return_dtype=pl.Float64)
        wrong = np.flatnonzero((cells.is_not_null() & values.is_null()).to_numpy())
        values = values.fill_null(np.nan).to_numpy().copy()
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"column '{column.name}', row {row + 1}: {column[row]!r} is neither true nor false; "
            "the column holds true and false, a missing value is an empty cell"
        )
    return values


def kind(column: Series) -> Kind:
    """What a column holds, from its type and, where that is text, from its cells.

    Raises:
        DataError: for dates, empty columns, types that are no single values, and text that is
            nearly all numbers (naming the first cell that is not).
    """
    import polars as pl

    if column.dtype.is_numeric():
        return "numeric"
    if column.dtype == pl.Boolean:
        return "boolean"
    _refuse_other_types(column)
    cells = text(column)
    present = cells.drop_nulls()
    if not len(present):
        raise DataError(
            f"column '{column.name}' is empty in every row; leave it out with "
            f"--ignore {column.name}"
        )
    if column.dtype != pl.String:
        return "categorical"  # declared so by the file
    numeric = present.cast(pl.Float64, strict=False).is_not_null().to_numpy()
    if numeric.all():
        return "numeric"
    if present.str.to_lowercase().is_in(["true", "false"]).all():
        return "boolean"
    if numeric.mean() >= MOSTLY_NUMERIC:
        numbers(column)  # raises, naming the cell
    if all(_DATE.fullmatch(cell) for cell in present.unique()):
        raise DataError(_dates(column.name))
    return "categorical"


def categories(column: Series) -> tuple[str, ...]:
    """The distinct texts of a column in alphabetical order.

    Raises:
        DataError: if they are too many to be categories.
    """
    cells, found = text(column).drop_nulls(), distinct(column)
    different = len(found) == len(cells) > FEW_ROWS
    if different or len(found) > MOST_CATEGORIES:
        many = "a different text in every row" if different else f"{len(found)} different texts"
        raise DataError(
            f"column '{column.name}' holds {many} (such as '{found[0]}'): too many to be "
            f"categories (at most {MOST_CATEGORIES}); leave it out with --ignore {column.name}, "
            "or turn it into numbers first"
        )
    return found


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


def not_a_number(name: str, row: int, cell: str) -> str:
    """The message about a cell that should be a number."""
    if _DECIMAL_COMMA.fullmatch(cell):
        hint = f"write decimals with a point: {cell.replace(',', '.')}"
    elif cell.lower() in _MISSING_WORDS:
        hint = "leave a missing value empty"
    else:
        hint = f"correct the cell, or leave the column out with --ignore {name} when fitting"
    return (
        f"column '{name}', row {row + 1}: '{cell}' is not a number, but the column is numeric; "
        f"{hint}"
    )


def _dates(name: str) -> str:
    return (
        f"column '{name}' holds dates or times; turn it into a number first (days since the "
        f"first date, hour of the day), or leave it out with --ignore {name}"
    )


def _refuse_other_types(column: Series) -> None:
    """Lets numbers, truth values, text and categories pass."""
    import polars as pl

    if column.dtype.is_temporal():
        raise DataError(_dates(column.name))
    plain = (pl.String, pl.Categorical, pl.Enum, pl.Null, pl.Boolean)
    if column.dtype not in plain and not column.dtype.is_numeric():
        raise DataError(
            f"column '{column.name}' has cells of type {column.dtype}; numbers, true and false, "
            f"and text can be used; leave it out with --ignore {column.name}"
        )
