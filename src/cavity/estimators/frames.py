"""Data frames of pandas and polars in the place of arrays, and the dates in these."""

import abc
import datetime
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from cavity.columns.frames import Series
from cavity.persistence.errors import DataError

# An index of pandas, of any kind.
Index = Any

_CATEGORICAL = ("CategoricalDtype", "Categorical", "Enum")
_MICROSECONDS = {"M": "datetime64[us]", "m": "timedelta64[us]"}


def dates_as_days(X: Any) -> Any:
    """Inputs with days since 1970-01-01 for dates, days for durations, and hours for times of day.

    scikit-learn takes their numbers in whatever unit an array or a frame keeps them, which is not
    the same in all of them. Times with a time zone are those of UTC.

    Args:
        X: an array, or a frame of pandas or polars; anything else passes.

    Raises:
        DataError: for columns of objects of which some are dates or times of day.
    """
    if isinstance(X, np.ndarray):
        if X.dtype.kind == "O" and X.ndim in (1, 2):
            return _objects_as_days(X)
        return _days(X, X.dtype.kind) if X.dtype.kind in _MICROSECONDS else X
    frame = frame_of(X)
    if frame is None:
        return X
    columns = {column.name: column.as_days() for column in frame.columns}
    converted = {name: numbers for name, numbers in columns.items() if numbers is not None}
    return frame.with_numbers(converted) if converted else X


def _objects_as_days(X: np.ndarray) -> np.ndarray:
    """An array of objects with numbers in the place of dates; itself where there are none."""
    columns = X.reshape(len(X), -1).T
    converted = {
        index: numbers
        for index, column in enumerate(columns)
        if (numbers := _from_objects(index, [None if _absent(c) else c for c in column]))
        is not None
    }
    if not converted:
        return X
    array = np.array(columns, dtype=object)
    for index, numbers in converted.items():
        array[index] = numbers
    return array.T.reshape(X.shape)


def _absent(cell: object) -> bool:
    """True if a cell is None, NaN or NaT, of numpy or of pandas."""
    dates = (float, np.floating, datetime.date, np.datetime64)
    return cell is None or (isinstance(cell, dates) and bool(cell != cell))


def _from_objects(name: Hashable, cells: list[Any]) -> np.ndarray | None:
    """Python's dates as days, its times of day as hours; None where there are none of them."""
    present = [cell for cell in cells if cell is not None]
    dates = sum(isinstance(cell, datetime.date | np.datetime64) for cell in present)
    times = sum(isinstance(cell, datetime.time) for cell in present)
    if not dates and not times:
        return None
    if len(present) not in (dates, times):
        raise DataError(
            f"column '{name}' holds dates or times among other objects; convert it, such as with "
            "pd.to_datetime, or leave it out"
        )
    number = _day if dates else _hour
    return np.array([np.nan if cell is None else number(cell) for cell in cells])


def _day(cell: datetime.date | np.datetime64) -> float:
    if isinstance(cell, datetime.datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
    return float(_days(cell, "M"))


def _hour(cell: datetime.time) -> float:
    since = datetime.datetime.combine(datetime.date.min, cell.replace(tzinfo=None))
    return (since - datetime.datetime.min) / datetime.timedelta(hours=1)


def _days(values: Any, kind: str) -> np.ndarray:
    moments = np.asarray(values, dtype=_MICROSECONDS[kind])
    return np.where(np.isnat(moments), np.nan, moments.astype("int64") / 86_400e6)


# -------------------------------------------------------------------- pandas and polars alike


class AbstractColumn(abc.ABC):
    """A column of a data frame, of pandas or of polars.

    Args:
        name: of the column.
        values: of the library; of several columns of one name, all of these.
        dtype: the type that the library has for it.
    """

    def __init__(self, name: Hashable, values: Any, dtype: Any):
        self.name, self.values, self.dtype = name, values, dtype

    @property
    def kind(self) -> str:
        """The name of the library's type."""
        return type(self.dtype).__name__

    @property
    @abc.abstractmethod
    def letter(self) -> str:
        """numpy's letter for dates, durations, truth values and objects; empty for others."""

    @property
    @abc.abstractmethod
    def holds_text(self) -> bool:
        """True for text and categories, and for objects of which some are text."""

    @abc.abstractmethod
    def as_days(self) -> np.ndarray | None:
        """Dates, durations or times of day as numbers; None for others."""

    @property
    @abc.abstractmethod
    def instants(self) -> Series:
        """Dates as polars has them."""

    @property
    @abc.abstractmethod
    def series(self) -> Series:
        """The column as polars has it, text for objects, null where missing."""

    @staticmethod
    @abc.abstractmethod
    def replaced(table: Any, columns: Mapping[Hashable, np.ndarray]) -> Any:
        """A table of the library with numbers in the place of some columns."""


class PandasColumn(AbstractColumn):
    """A column of pandas."""

    @property
    def letter(self) -> str:
        return self.dtype.kind

    @property
    def holds_text(self) -> bool:
        if self.kind in (*_CATEGORICAL, "StringDtype"):
            return True
        return self.letter == "O" and any(isinstance(cell, str) for cell in self.values.tolist())

    def as_days(self) -> np.ndarray | None:
        if self.letter in _MICROSECONDS:
            return _days(self.values, self.letter)
        if self.letter != "O" or self.values.ndim > 1:
            return None
        missing = self.values.isna()
        return _from_objects(self.name, [*self.values.astype(object).where(~missing, None)])

    @property
    def instants(self) -> Series:
        import polars as pl

        if self.kind != "DatetimeTZDtype":
            return pl.Series("dates", self.values.to_numpy())
        plain = self.values.dt.tz_convert("UTC").dt.tz_localize(None)
        return pl.Series("dates", plain.to_numpy()).dt.replace_time_zone("UTC")

    @property
    def series(self) -> Series:
        import polars as pl

        missing = self.values.isna()
        if self.letter in "biuf" and not missing.any():
            return pl.Series(str(self.name), self.values.to_numpy())
        cells = zip(self.values.tolist(), missing.tolist(), strict=True)
        texts = [None if gone else str(cell) for cell, gone in cells]
        categorical = pl.Categorical if self.kind in _CATEGORICAL else pl.String
        return pl.Series(str(self.name), texts, dtype=pl.String).cast(categorical)

    @staticmethod
    def replaced(table: Any, columns: Mapping[Hashable, np.ndarray]) -> Any:
        table = table.copy()
        for name, numbers in columns.items():
            table[name] = numbers
        return table


class PolarsColumn(AbstractColumn):
    """A column of polars."""

    @property
    def letter(self) -> str:
        return {"Date": "M", "Datetime": "M", "Duration": "m", "Boolean": "b"}.get(self.kind, "")

    @property
    def holds_text(self) -> bool:
        return self.kind in (*_CATEGORICAL, "String")

    def as_days(self) -> np.ndarray | None:
        if self.letter in _MICROSECONDS:
            return _days(self.values, self.letter)
        return _from_objects(self.name, self.values.to_list()) if self.kind == "Time" else None

    @property
    def instants(self) -> Series:
        return self.values

    @property
    def series(self) -> Series:
        return self.values.alias(str(self.name))

    @staticmethod
    def replaced(table: Any, columns: Mapping[Hashable, np.ndarray]) -> Any:
        import polars as pl

        return table.with_columns([pl.Series(str(name), n) for name, n in columns.items()])


class Frame:
    """A data frame, of pandas or of polars.

    Args:
        table: of the library.
        column: its columns.
    """

    def __init__(self, table: Any, column: type[AbstractColumn]):
        self.table, self.column, self.names = table, column, [*table.columns]

    @property
    def columns(self) -> list[AbstractColumn]:
        """All columns."""
        each = zip(self.names, self.table.dtypes, strict=True)
        return [self.column(name, self.table[name], dtype) for name, dtype in each]

    @property
    def repeats(self) -> bool:
        """True if columns have the same name, by which they are not told apart."""
        return len({*self.names}) < len(self.names)

    @property
    def texts(self) -> list[Hashable]:
        """The names of the columns that hold text or categories."""
        columns = () if self.repeats else self.columns
        return [column.name for column in columns if column.holds_text]

    def only(self, names: Sequence[Hashable]) -> "Frame":
        """The frame with some of its columns, in this order."""
        return Frame(self.table[[*names]], self.column)

    def made(self, columns: Mapping[str, Any]) -> Any:
        """A table of the library with other columns."""
        return type(self.table)(columns)

    def with_numbers(self, columns: Mapping[Hashable, np.ndarray]) -> Any:
        """The table with numbers in the place of some columns."""
        return self.column.replaced(self.table, columns)


def frame_of(table: Any) -> Frame | None:
    """A data frame of pandas or of polars; None for anything else."""
    if getattr(table, "columns", None) is None or getattr(table, "dtypes", None) is None:
        return None
    ours = type(table).__module__.partition(".")[0] == "polars"
    return Frame(table, PolarsColumn if ours else PandasColumn)


def names_in(table: Any) -> list[Hashable] | None:
    """The names of the columns of a data frame, or that of a series; None where it has none."""
    frame = frame_of(table)
    name = getattr(table, "name", None) if frame is None else None
    named = None if name is None else [name]
    return named if frame is None else frame.names


def colour_name(colour: object) -> str:
    """The name of what colours rows: that of a series, or "colour"."""
    return str((names_in(colour) or ["colour"])[0] or "colour")
