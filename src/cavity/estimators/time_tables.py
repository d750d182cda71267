"""Tables in time: rows in order, without gaps, and the horizons of forecasts."""

from typing import Any, NamedTuple

import numpy as np

from cavity.estimators.frames import Index, dates_as_days, frame_of, names_in
from cavity.estimators.panels import series_of, stacked
from cavity.estimators.times import (
    check_times,
    joined,
    numbered_from_zero,
    rows_that_follow,
    times_of,
)
from cavity.numerics.text import plural
from cavity.numerics.validation import check_magnitude
from cavity.persistence.errors import DataError

# Horizons below this are whole numbers of any machine.
MOST_STEPS = 2**31


class TimeData(NamedTuple):
    """Data of a fit, in the units of the table.

    Attributes:
        y: outputs (T, P), NaN where missing.
        X: controls (T, C); C may be zero.
        single: whether y was given as a vector.
        index: times of pandas, None where there are none and with labels of series.
        series: numbers of the series of rows (T,), one series after another; None without labels.
        names: the labels of series, in order; None without.
    """

    y: np.ndarray
    X: np.ndarray
    single: bool
    index: Index | None
    series: np.ndarray | None = None
    names: tuple[Any, ...] | None = None


def time_rows(
    name: str, table: Any, *, allow_dates: bool = True, series: np.ndarray | None = None
) -> np.ndarray:
    """A table whose rows follow each other in time, as numbers (T, P), NaN where missing.

    Args:
        name: of the table, in messages.
        table: an array or a frame; a vector is one column.
        allow_dates: whether dates are numbers, of days since 1970-01-01.
        series: numbers of the series of rows, each of which has times of its own; None for one.

    Raises:
        ValueError: for text, for tables without rows or of another shape, for infinite values,
            for dates that are not allowed, for times that are not sorted or that repeat, and for
            times with gaps.
    """
    _check_times(name, times_of(table), series)
    try:
        as_frame = getattr(table, "to_frame", None)
        columns = table if as_frame is None else as_frame()
        columns = np.asarray(columns) if frame_of(columns) is None else columns
        numbers = dates_as_days(columns)
        if numbers is not columns and not allow_dates:
            raise DataError(
                f"{name} holds dates, times or durations{_first_of_dates(columns)}, and outputs "
                "are numbers: make them the index of the table, or leave them out"
            )
        values = np.asarray(numbers, np.float64)
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"{name} must be a table with a row for each time, given shape {values.shape}"
        )
    check_magnitude(name, np.nan_to_num(values, posinf=np.inf, neginf=-np.inf), small=False)
    return values


def _check_times(name: str, times: Index | None, series: np.ndarray | None) -> None:
    if series is None:
        check_times(name, times)
    elif times is not None and len(times) == len(series):
        own = times.droplevel(0) if times.nlevels == 2 else times
        for number in np.unique(series):
            check_times(name, own[series == number])


def _first_of_dates(columns: Any) -> str:
    """Name of the first column of a frame that holds dates, for messages; empty without names."""
    frame = frame_of(columns)
    for name in [] if frame is None else frame.names:
        one = columns[[name]]
        if dates_as_days(one) is not one and name != 0:
            return f" in column {name!r}"
    return ""


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


def probabilities(name: str, values: object) -> np.ndarray:
    """One or several probabilities, () or (n,).

    Raises:
        ValueError: for anything else than numbers strictly between 0 and 1.
    """
    try:
        shares = np.asarray(values, float)
        usable = shares.ndim <= 1 and shares.size > 0 and np.all((shares > 0.0) & (shares < 1.0))
    except (TypeError, ValueError):
        shares, usable = np.empty(0), False
    if not usable:
        raise ValueError(
            f"{name} must be one or several probabilities in (0, 1), such as 0.9, given {values!r}"
        )
    return shares


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


def time_data(y: Any, X: Any, controls: int | None = None, series: Any = None) -> TimeData:
    """Outputs and controls of the same rows.

    Args:
        y: outputs.
        X: controls, or None.
        controls: how many there must be; None for any number.
        series: labels of the series of rows; None for one series.

    Raises:
        ValueError: for unusable tables, and for tables that do not belong together.
    """
    numbers, names = (None, None) if series is None else series_of(series, len(y))
    outputs, single = time_rows("y", y, allow_dates=False, series=numbers), np.ndim(y) == 1
    table = None if X is None else time_rows("X", X, series=numbers)
    if controls is not None:
        check_controls(table, controls, len(outputs))
    table = np.zeros((len(outputs), 0)) if table is None else table
    if len(table) != len(outputs):
        raise ValueError(f"X has {len(table)} rows, y has {len(outputs)}: one row for each time")
    check_controls(table, table.shape[1], 0)
    times = _times_of_both(times_of(y), times_of(X))
    return TimeData(outputs, table, single, None if names else times, numbers, names)


def names_of(y: Any, X: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of outputs and controls, or what stands for them; all are different."""
    outputs, controls = _names(y, "y"), _names(X, "x")
    if len({*outputs, *controls}) == len(outputs) + len(controls):
        return outputs, controls
    return (
        tuple(f"y{i}" for i in range(len(outputs))),
        tuple(f"x{i}" for i in range(len(controls))),
    )


def _names(table: Any, otherwise: str) -> tuple[str, ...]:
    named = names_in(table)
    if table is None:
        return ()
    if named is not None:
        return tuple(map(str, named))
    if np.ndim(table) == 1:
        return (otherwise,)
    return tuple(f"{otherwise}{i}" for i in range(np.shape(table)[1]))


def rows_after(y: Any, X: Any, before: TimeData) -> TimeData:
    """Rows after those of a fit, which had labels of series or not.

    With labels outputs and controls have an axis of series in front.

    Args:
        y: outputs.
        X: controls, or None.
        before: the rows of the fit.

    Raises:
        ValueError: for unusable tables, and for tables that do not go with those of the fit.
    """
    columns = before.y.shape[1]
    if before.names is not None:
        outputs = stacked("y", y, len(before.names), columns)
        controls = future_controls(X, before, outputs.shape[1])
        none = np.zeros((*outputs.shape[:2], 0))
        return TimeData(outputs, none if controls is None else controls, before.single, None)
    data = time_data(y, X, controls=before.X.shape[1])
    if data.y.shape[1] != columns:
        raise ValueError(f"y has {data.y.shape[1]} columns, the fit had {columns}")
    rows_that_follow("y", data.index, before.index, len(data.y))
    return data


def _times_of_both(times: Index | None, others: Index | None) -> Index | None:
    """The times that outputs and controls share; rows that pandas has numbered are no times."""
    if times is None or others is None:
        return others if times is None else times
    if numbered_from_zero(times) or numbered_from_zero(others):
        return others if numbered_from_zero(times) else times
    if not times.equals(others):
        raise ValueError("X and y have other times: give both the same index")
    return times


def followed_by(before: TimeData, after: TimeData) -> TimeData:
    """A series with rows that follow its last one."""
    return TimeData(
        np.concatenate([before.y, after.y]),
        np.concatenate([before.X, after.X]),
        before.single,
        joined(before.index, after.index, len(after.y)),
    )


def future_controls(X: Any, before: TimeData, steps: int) -> np.ndarray | None:
    """Controls of the rows after those of a fit, (steps, C); None where it had none.

    With labels of series it is (S, n, C).

    Args:
        X: a table that holds them: in the order of its rows, or by its times; with labels of
            series an array with an axis of these in front.
        before: the rows of the fit.
        steps: how many are needed.

    Raises:
        ValueError: for controls that are missing, or that are of other times.
    """
    columns, series = before.X.shape[1], before.names
    if series is not None and X is not None and columns:
        controls = stacked("X", X, len(series), columns)
        check_controls(controls.reshape(-1, columns), columns, 0)
        check_controls(controls[0], columns, steps)
        return controls
    controls = None if X is None else time_rows("X", X)
    check_controls(controls, columns, steps)
    if controls is None:
        return None
    return controls[rows_that_follow("X", times_of(X), before.index, steps)]
