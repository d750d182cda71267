"""Rows of time series in files, with the times of pandas."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.estimators.frames import Index
from cavity.estimators.time_tables import TimeData
from cavity.persistence.errors import StorageError
from cavity.persistence.typed_values import WrongValue, typed

# Indices of pandas, and the attributes that make one of its numbers.
_NUMBERED = {
    "DatetimeIndex": ("unit", "tz", "freqstr"),
    "TimedeltaIndex": ("unit", "freqstr"),
    "PeriodIndex": ("freqstr",),
}


def rows_record(data: TimeData) -> dict[str, Any]:
    """The rows of a series, with their times as numbers or texts.

    Args:
        data: of a fit.
    """
    return {**data._asdict(), "index": _times_record(data.index)}


def rows_from(record: object) -> TimeData:
    """Inverse of `rows_record`.

    Raises:
        WrongValue: if it is something else.
    """
    known = typed(record, dict[str, Any], "its rows")
    if set(known) != {*TimeData._fields}:
        raise WrongValue(f"its rows have the parts {sorted(known)}")
    y, X = (typed(known[name], np.ndarray, name) for name in ("y", "X"))
    series = typed(known["series"], np.ndarray | None, "series")
    names = typed(known["names"], tuple[Any, ...] | None, "names")
    if y.ndim != 2 or X.ndim != 2 or len(y) != len(X):
        raise WrongValue("its rows are no tables of one length")
    if (series is None) != (names is None) or (series is not None and len(series) != len(y)):
        raise WrongValue("its rows have other labels of series than it says")
    single = typed(known["single"], bool, "single")
    return TimeData(y, X, single, _times_from(known["index"], len(y)), series, names)


def _times_record(index: Index | None) -> dict[str, Any] | None:
    if index is None:
        return None
    kind = type(index).__name__
    record: dict[str, Any] = {"kind": kind}
    if kind == "RangeIndex":
        return record | {"start": index.start, "stop": index.stop, "step": index.step}
    if kind not in _NUMBERED:
        values = index.to_numpy()
        return record | {"values": values if values.dtype.kind in "iuf" else [*map(str, index)]}
    about = {name: getattr(index, name) for name in _NUMBERED[kind]}
    texts = {name: None if value is None else str(value) for name, value in about.items()}
    record |= {"values": np.asarray(index.asi8)} | texts
    try:
        whole = _times_from(record, len(index)).freq == index.freq
    except WrongValue:
        whole = False
    if not whole:
        raise StorageError(
            f"a file cannot hold the times of the rows, whose steps are {index.freq!r} with "
            "settings of its own: fit it to rows with an index of numbers, or pickle it"
        )
    return record


def _times_from(record: object, count: int) -> Index:
    if record is None:
        return None
    try:
        import pandas as pd
    except ImportError:
        raise StorageError(
            "its rows have times of pandas, which is not installed: pip install pandas"
        ) from None
    known: Mapping[str, Any] = typed(record, dict[str, Any], "its times")
    try:
        match known["kind"]:
            case "RangeIndex":
                index: Any = pd.RangeIndex(known["start"], known["stop"], known["step"])
            case "DatetimeIndex":
                index = pd.DatetimeIndex(known["values"].view(f"M8[{known['unit']}]"))
                if known["tz"] is not None:
                    index = index.tz_localize("UTC").tz_convert(known["tz"])
                index.freq = known["freqstr"]
            case "TimedeltaIndex":
                index = pd.TimedeltaIndex(known["values"].view(f"m8[{known['unit']}]"))
                index.freq = known["freqstr"]
            case "PeriodIndex":
                index = pd.PeriodIndex.from_ordinals(known["values"], freq=known["freqstr"])
            case _:
                index = pd.Index(known["values"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise WrongValue(f"its times cannot be read ({error})") from None
    if len(index) != count:
        raise WrongValue(f"it has {len(index)} times of {count} rows")
    return index
