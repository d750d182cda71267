"""Types of polars, for checkers of types; it is imported when a table is read."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polars import DataFrame, LazyFrame, Series
else:
    DataFrame = LazyFrame = Series = Any

__all__ = ["DataFrame", "LazyFrame", "Series", "floats"]


def floats(column: Series, *, strict: bool = True) -> Series:
    """A column as numbers; cells that are none are an error, or without `strict` null."""
    import polars as pl

    return column.cast(pl.Float64, strict=strict)
