"""Dates in the inputs of an estimator."""

from typing import Any

import numpy as np

_MICROSECONDS = {"M": "datetime64[us]", "m": "timedelta64[us]"}


def dates_as_days(X: Any) -> Any:
    """Inputs with days since 1970-01-01 for dates, and days for durations.

    scikit-learn takes their numbers in whatever unit an array or a frame keeps them, which is not
    the same in all of them. Times with a time zone are those of UTC.

    Args:
        X: an array, or a frame of pandas or polars; anything else passes.
    """
    if isinstance(X, np.ndarray):
        return _days(X, X.dtype.kind) if X.dtype.kind in _MICROSECONDS else X
    names, types = getattr(X, "columns", None), getattr(X, "dtypes", None)
    if names is None or types is None:
        return X
    kinds = {name: _kind(dtype) for name, dtype in zip(names, types, strict=True)}
    converted = {name: _days(X[name], kind) for name, kind in kinds.items() if kind}
    if not converted:
        return X
    import polars as pl

    if isinstance(X, pl.DataFrame):
        return X.with_columns([pl.Series(name, days) for name, days in converted.items()])
    X = X.copy()
    for name, days in converted.items():
        X[name] = days
    return X


def _kind(dtype: Any) -> str:
    """numpy's letter for a column of dates or durations; empty for others."""
    letter = getattr(dtype, "kind", None)
    if letter is None:
        letters = {"Date": "M", "Datetime": "M", "Duration": "m"}
        letter = letters.get(type(dtype).__name__, "")
    return letter if letter in _MICROSECONDS else ""


def _days(values: Any, kind: str) -> np.ndarray:
    moments = np.asarray(values, dtype=_MICROSECONDS[kind])
    return np.where(np.isnat(moments), np.nan, moments.astype("int64") / 86_400e6)
