"""Dates in the inputs of an estimator."""

import datetime
from collections.abc import Hashable
from typing import Any

import numpy as np

from cavity.persistence.errors import DataError

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
    names, types = getattr(X, "columns", None), getattr(X, "dtypes", None)
    if names is None or types is None:
        return X
    columns = {name: _converted(X, name, dtype) for name, dtype in zip(names, types, strict=True)}
    converted = {name: numbers for name, numbers in columns.items() if numbers is not None}
    if not converted:
        return X
    import polars as pl

    if isinstance(X, pl.DataFrame):
        return X.with_columns([pl.Series(name, days) for name, days in converted.items()])
    X = X.copy()
    for name, days in converted.items():
        X[name] = days
    return X


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


def _converted(X: Any, name: Hashable, dtype: object) -> np.ndarray | None:
    """A column of dates, durations or times of day as numbers; None for others."""
    kind = _kind(dtype)
    if kind:
        return _days(X[name], kind)
    if type(dtype).__name__ == "Time":
        return _from_objects(name, X[name].to_list())
    # columns of the same name come as a frame
    if getattr(dtype, "kind", "") == "O" and X[name].ndim == 1:
        missing = X[name].isna()
        return _from_objects(name, [*X[name].astype(object).where(~missing, None)])
    return None


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


def _kind(dtype: object) -> str:
    """numpy's letter for a column of dates or durations; empty for others."""
    letter = getattr(dtype, "kind", None)
    if letter is None:
        letters = {"Date": "M", "Datetime": "M", "Duration": "m"}
        letter = letters.get(type(dtype).__name__, "")
    return letter if letter in _MICROSECONDS else ""


def is_dates(dtype: object) -> bool:
    """True for the type of a column of dates, of pandas or of polars."""
    return _kind(dtype) == "M"


def _days(values: Any, kind: str) -> np.ndarray:
    moments = np.asarray(values, dtype=_MICROSECONDS[kind])
    return np.where(np.isnat(moments), np.nan, moments.astype("int64") / 86_400e6)
