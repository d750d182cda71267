"""Types of polars, for checkers of types; it is imported when a table is read."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polars import DataFrame, LazyFrame, Series
else:
    DataFrame = LazyFrame = Series = Any

__all__ = ["DataFrame", "LazyFrame", "Series"]
