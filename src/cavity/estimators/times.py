"""Times of the rows of pandas tables: their order, their gaps, and which rows follow."""

import re
from typing import Any

import numpy as np

from cavity.estimators.frames import Index

# Names of kinds of indices of pandas, in messages.
KINDS = {
    "DatetimeIndex": "dates",
    "PeriodIndex": "periods",
    "TimedeltaIndex": "durations",
    "MultiIndex": "several levels",
}
# Text of the beginning of a date.
ISO_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}([T ].*)?)?")
# Share of a step that numbers of rows may be off.
ROUNDING = 1e-3


def times_of(table: object) -> Index | None:
    """The index of a pandas table; None for tables without one.

    Dates that are kept as objects or as text such as 2024-03-01 become dates of pandas. Any other
    text is names of rows.
    """
    index = getattr(table, "index", None)
    if getattr(index, "is_monotonic_increasing", None) is None:
        return None
    return _as_dates(index)


def _as_dates(index: Index) -> Index:
    kind = index.inferred_type
    written = kind == "string" and all(ISO_DATE.fullmatch(text) for text in index)
    if not (written or kind in ("date", "datetime")):
        return index
    try:
        return index.astype("datetime64[us]")
    except (TypeError, ValueError):
        return index


def numbered_from_zero(index: Index) -> bool:
    """True for an index that pandas gives to rows without one."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def check_times(name: str, index: Index | None) -> None:
    """Refuses times that are not sorted, repeat, or leave some out.

    Text that is no date is names of rows, in the order of time; they must not repeat.

    Args:
        name: of the table, in messages.
        index: what `times_of` gives; None for no times.

    Raises:
        ValueError: naming the first.
    """
    if index is None:
        return
    kind = _kind(index)
    if kind == KINDS["MultiIndex"]:
        raise ValueError(
            f"{name} has an index of several levels, and a forecaster takes times of one series: "
            "give the rows of one, such as y.xs(...)"
        )
    named = kind == "names"
    if not index.is_unique or not (named or index.is_monotonic_increasing):
        raise ValueError(
            f"the rows of {name} must be sorted by time, one row for each: use sort_index(), and "
            "drop repeated times"
        )
    gap, frequency = _gap(index, kind)
    if gap is not None:
        raise ValueError(
            f"{name} has no rows between {index[gap]} and {index[gap + 1]}, and rows follow each "
            f"other in equal steps: put in rows of NaN, as asfreq({frequency}) does"
        )


def rows_that_follow(
    name: str, given: Index | None, before: Index | None, count: int
) -> np.ndarray:
    """Places in a table of the rows that follow those of a fit, by their times.

    A table without times, or with rows that pandas has numbered from 0, has them in its order.

    Args:
        name: of the table, in messages.
        given: its times, as `times_of` gives them.
        before: those of the fit.
        count: how many rows are needed; the table has so many at least.

    Returns:
        Their places (count,).

    Raises:
        ValueError: for times that do not follow.
    """
    in_order = np.arange(count)
    if given is None or before is None or not count or numbered_from_zero(given):
        return in_order
    kinds = _kind(given), _kind(before)
    if kinds[0] != kinds[1]:
        if numbered_from_zero(before):
            return in_order
        raise ValueError(
            f"the index of {name} holds {kinds[0]}, that of the fit {kinds[1]}: give both the "
            "same kind of index, or an array for rows in their order"
        )
    expected = following(before, count)
    if expected is None:
        _check_new(name, given, before)
        return in_order
    places = _places(expected, given, kinds[0])
    missing = np.flatnonzero(places < 0)
    if len(missing):
        raise ValueError(
            f"{name} has no row for {expected[missing[0]]}: the fit ends at {before[-1]}, and the "
            f"rows for {_span(expected)} are needed, given {_span(given)}; values that are not "
            "known are rows of NaN"
        )
    return places


def joined(before: Index | None, given: Index | None, count: int) -> Index | None:
    """The times of a fit with those of so many rows that follow; None where they are not known.

    Args:
        before: times of the fit.
        given: times of the new rows, which `rows_that_follow` has accepted.
        count: how many there are.
    """
    if before is None:
        return None
    expected = following(before, count)
    if expected is not None:
        index = before.append(expected)
        regular = type(before).__name__ in KINDS and before.freq is not None
        return type(before)(index, freq=before.freq) if regular else index
    if given is None or numbered_from_zero(given):
        return None
    return before.append(given)


def following(index: Index, count: int) -> Index | None:
    """The times of so many rows after the last one; None for names and for unequal steps."""
    kind, last, ahead = _kind(index), index[-1], range(1, count + 1)
    if kind == "numbers" and len(index) > 1:
        values = np.asarray(index)
        steps = np.diff(values.astype(float))
        if np.ptp(steps) > ROUNDING * steps.min():
            return None
        step = values[1] - values[0] if values.dtype.kind in "iu" else steps.mean()
        if type(index).__name__ == "RangeIndex":
            return type(index)(last + step, last + step * (count + 1), step)
        return type(index)(last + step * np.asarray(ahead))
    if kind == KINDS["PeriodIndex"]:
        step = int(np.diff(index.asi8).min()) if len(index) > 1 else 1
    elif kind in ("numbers", "names"):
        return None
    else:
        step = _step(index)
    return None if step is None else type(index)([last + k * step for k in ahead])


def _step(index: Index) -> Any:
    """The step from row to row of dates or durations; None where it varies."""
    if index.freq is not None:
        return index.freq
    if len(index) > 2 and index.inferred_freq is not None:
        return type(index)(index, freq="infer").freq
    steps = np.diff(index.asi8)
    return index[1] - index[0] if len(steps) and not np.ptp(steps) else None


def _kind(index: Index) -> str:
    kind = KINDS.get(type(index).__name__)
    if kind is None:
        return "numbers" if index.dtype.kind in "iuf" else "names"
    zoned = type(index).__name__ == "DatetimeIndex" and index.tz is not None
    return f"{kind} with a time zone" if zoned else kind


def _gap(index: Index, kind: str) -> tuple[int | None, str]:
    """First irregular time step: the row before it, or None; and the usual step as text."""
    unknown = "..."
    if len(index) < 2 or kind == "names":
        return None, unknown
    if kind == "numbers":
        steps = np.diff(np.asarray(index, float))
    elif kind == KINDS["PeriodIndex"]:
        steps = np.diff(index.asi8)
    else:
        # months and business days are steps of unequal length
        if _step(index) is not None:
            return None, unknown
        missing = _missing_business_day(index)
        if missing is not None:
            return missing, '"B"'
        steps = np.diff(index.asi8)
    jumps = np.flatnonzero(steps > 1.5 * steps.min())
    return (int(jumps[0]) if len(jumps) else None), unknown


def _missing_business_day(index: Index) -> int | None:
    """The row after which a business day is missing; None where rows are of other days too."""
    if type(index).__name__ != "DatetimeIndex":
        return None
    days = np.asarray(index.tz_localize(None), "datetime64[D]")
    if not np.all(np.is_busday(days)) or np.diff(days).min() != np.timedelta64(1, "D"):
        return None
    jumps = np.flatnonzero(np.busday_count(days[:-1], days[1:]) > 1)
    return int(jumps[0]) if len(jumps) else None


def _places(expected: Index, given: Index, kind: str) -> np.ndarray:
    """Positions of times in a table, -1 for those that are not there."""
    if kind != "numbers" or len(given) < 2:
        return np.asarray(given.get_indexer(expected))
    step = float(np.min(np.diff(np.asarray(given, float))))
    return np.asarray(given.get_indexer(expected, method="nearest", tolerance=ROUNDING * step))


def _check_new(name: str, given: Index, before: Index) -> None:
    """Refuses rows that are among those of a fit, or before its last one."""
    repeated = np.flatnonzero(given.isin(before))
    if len(repeated):
        raise ValueError(
            f"row {given[repeated[0]]} of {name} is one of the fit, which ends at {before[-1]}: "
            "give the rows after it"
        )
    if _kind(given) != "names" and given[0] < before[-1]:
        raise ValueError(
            f"{name} starts at {given[0]}, before the fit ends, at {before[-1]}: give the rows "
            "after it"
        )


def _span(index: Index) -> str:
    first = str(index[0])
    return first if len(index) == 1 else f"{first} to {index[-1]}"
