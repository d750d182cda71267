"""Tables in time: rows in order, without gaps, and the horizons of forecasts."""

from typing import Any, NamedTuple

import numpy as np

from cavity.estimators.frames import dates_as_days
from cavity.numerics.text import plural
from cavity.numerics.validation import check_magnitude

# Horizons below this are whole numbers of any machine.
MOST_STEPS = 2**31


class TimeData(NamedTuple):
    """What a fit is of, in the units of the data.

    Attributes:
        y: outputs (T, P), NaN where missing.
        X: controls (T, C); C may be zero.
        single: whether y was given as a vector.
        index: times of pandas, where there are some.
    """

    y: np.ndarray
    X: np.ndarray
    single: bool
    index: Any


def time_rows(name: str, table: Any) -> np.ndarray:
    """A table whose rows follow each other in time, as numbers (T, P), NaN where missing.

    Args:
        name: of the table, in messages.
        table: an array or a frame; a vector is one column.

    Raises:
        ValueError: for text, for tables without rows or of another shape, for infinite values,
            for times that are not sorted or that repeat, and for times with gaps.
    """
    check_times(name, index_of(table))
    try:
        values = np.asarray(dates_as_days(table), np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"{name} must be a table with a row for each time, given shape {values.shape}"
        )
    check_magnitude(name, np.nan_to_num(values, posinf=np.inf, neginf=-np.inf), small=False)
    return values


def index_of(table: Any) -> Any:
    """The times of a pandas table; None for what has none."""
    index = getattr(table, "index", None)
    return index if getattr(index, "is_monotonic_increasing", None) is not None else None


def check_times(name: str, index: Any) -> None:
    """Refuses times that are not sorted, repeat, or leave some out.

    Args:
        name: of the table, in messages.
        index: of pandas; None for no times.

    Raises:
        ValueError: naming the first.
    """
    if index is None or len(index) < 2:
        return
    if not (index.is_monotonic_increasing and index.is_unique):
        raise ValueError(
            f"the rows of {name} must be sorted by time, one row for each: use sort_index(), and "
            "drop repeated times"
        )
    gap = _gap(index)
    if gap is not None:
        raise ValueError(
            f"{name} has no rows between {index[gap]} and {index[gap + 1]}, and rows follow each "
            "other in equal steps: put in rows of NaN, as asfreq(...) does"
        )


def _gap(index: Any) -> int | None:
    """The row after which times jump; None where there is none."""
    kind = type(index).__name__
    if kind == "PeriodIndex":
        steps = np.diff(index.asi8)
    elif kind == "DatetimeIndex":
        # months and business days are steps of unequal length
        regular = index.freq is not None or (len(index) > 2 and index.inferred_freq is not None)
        steps = np.ones(len(index) - 1) if regular else np.diff(index.asi8)
    elif getattr(index, "dtype", np.dtype(object)).kind in "iuf":
        steps = np.diff(np.asarray(index, float))
    else:
        return None
    least = steps.min()
    jumps = np.flatnonzero(steps > 1.5 * least)
    return int(jumps[0]) if len(jumps) else None


def horizons(fh: object) -> np.ndarray:
    """Steps ahead as an array of whole numbers.

    Raises:
        ValueError: for anything else than whole numbers from 1.
    """
    try:
        steps = np.atleast_1d(np.asarray(fh))
        whole = steps.dtype.kind in "iuf" and bool(np.all(np.abs(steps) < MOST_STEPS))
        whole = whole and bool(np.all(steps == np.round(steps)))
    except (TypeError, ValueError):
        steps, whole = np.empty(0), False
    if not whole or steps.ndim != 1 or len(steps) == 0 or np.any(steps < 1):
        raise ValueError(
            "fh must be steps after the last row, whole numbers from 1 such as 3 or [1, 2, 3], "
            f"given {fh!r}"
        )
    return steps.astype(int)


def check_controls(X: np.ndarray | None, columns: int, rows: int) -> None:
    """Refuses controls that do not go with those of the fit, or do not have all rows.

    Args:
        X: controls (n, C), or None.
        columns: C of the fit, 0 for none.
        rows: that are needed.

    Raises:
        ValueError: saying what is missing.
    """
    if X is None and columns:
        raise ValueError(
            f"the fit had {plural(columns, 'control')}, so X is needed here: one row for each "
            f"of {plural(rows, 'step')}"
        )
    if X is None:
        return
    if X.shape[1] != columns:
        raise ValueError(
            f"X has {plural(X.shape[1], 'column')}, the fit had {plural(columns, 'control')}"
        )
    if len(X) < rows:
        raise ValueError(
            f"controls end before the forecast does: X has {plural(len(X), 'row')}, the last "
            f"horizon needs {rows}"
        )
    if np.any(np.isnan(X)):
        raise ValueError("X must not have missing values: fill in the controls first")


def time_data(y: Any, X: Any, controls: int | None = None) -> TimeData:
    """Outputs and controls of the same rows.

    Args:
        y: outputs.
        X: controls, or None.
        controls: how many there must be; None for any number.

    Raises:
        ValueError: for unusable tables, and for tables that do not belong together.
    """
    outputs, single = time_rows("y", y), np.ndim(y) == 1
    table = None if X is None else time_rows("X", X)
    if controls is not None:
        check_controls(table, controls, len(outputs))
    table = np.zeros((len(outputs), 0)) if table is None else table
    if len(table) != len(outputs):
        raise ValueError(f"X has {len(table)} rows, y has {len(outputs)}: one row for each time")
    check_controls(table, table.shape[1], 0)
    times, others = index_of(y), index_of(X)
    if times is not None and others is not None and not times.equals(others):
        raise ValueError("X and y have other times: give both the same index")
    return TimeData(outputs, table, single, times)
