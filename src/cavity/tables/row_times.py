"""Dates of the rows of a time series, and those of the rows that follow."""

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from cavity.columns.column_types import evidence
from cavity.columns.dates import NO_DATE, ORDERS, Dates, Writing
from cavity.columns.frames import DataFrame, Series, floats
from cavity.columns.notation import dates_of
from cavity.numerics.text import quoted
from cavity.persistence.errors import DataError
from cavity.persistence.typed_values import Large, WrongValue
from cavity.tables.files import INDEX

# The column of an index without a name, in forecasts.
UNNAMED = "time"
# How years and quarters are written, beside dates.
YEAR, QUARTER = "%Y", re.compile(r"(?P<year>[12][0-9]{3})(?P<mark>[- ]?)Q(?P<quarter>[1-4])")
QUARTERS = {mark: f"%Y{mark}Q" for mark in ("", "-", " ")}
FIRST_YEAR, LAST_YEAR = 1500, 2400
END_OF_MONTH = 31
UNITS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}

Kind = Literal["months", "business days", "microseconds"]


class Step(NamedTuple):
    """The step from a row to the next.

    Attributes:
        kind: of the step.
        count: how many of them.
        day: of the month, for steps of months; 31 is the last day of each.
    """

    kind: Kind
    count: int
    day: int = 1

    def after(self, last: np.datetime64, rows: int) -> np.ndarray:
        """The instants of so many rows after the last one."""
        ahead = self.count * np.arange(1, rows + 1)
        clock = last - last.astype("M8[D]")
        if self.kind == "months":
            months = last.astype("M8[M]") + ahead
            days = np.minimum(self.day, days_of(months)) - 1
            return (months.astype("M8[D]") + days).astype("M8[us]") + clock
        if self.kind == "business days":
            return np.busday_offset(last.astype("M8[D]"), ahead).astype("M8[us]") + clock
        return last + ahead.astype("m8[us]")

    def __str__(self) -> str:
        if self.kind == "business days":
            return "1 business day"
        count, unit = self.count, "month"
        if self.kind == "microseconds":
            found = ((u, size) for u, size in UNITS.items() if count % size == 0)
            unit, size = next(found, ("microsecond", 1))
            count //= size
        elif count % 12 == 0:
            count, unit = count // 12, "year"
        return f"{count} {unit}{'s' if count > 1 else ''}"


class TimesRecord(TypedDict):
    """Record of the times of the rows of a fit; the last one and the step of each series."""

    column: str
    order: str
    timed: bool
    zoned: bool
    declared: bool
    ends: list[str]
    steps: list[tuple[Kind, Large, int]]


class RowTimes(NamedTuple):
    """Times of the rows of a fit, as far as those of rows to come follow from them.

    Attributes:
        column: of the table; empty for an index without a name.
        writing: of the cells.
        declared: whether a file says that they are dates, so that they are no text.
        ends: the last instant of each series.
        steps: the step of each series.
    """

    column: str
    writing: Writing
    declared: bool
    ends: tuple[np.datetime64, ...]
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """The name of the column in a forecast."""
        return self.column or UNNAMED

    @property
    def in_words(self) -> str:
        """The column, the last dates and the steps, as text."""
        ends = list(dict.fromkeys(str(written(end, self.writing)) for end in self.ends))
        steps = list(dict.fromkeys(map(str, self.steps)))
        return f"{self.name}, to {', '.join(ends)}, in steps of {', '.join(steps)}"

    def following(self, rows: int) -> Series:
        """Cells of so many rows after the last one, one series after another."""
        import polars as pl

        pairs = zip(self.steps, self.ends, strict=True)
        instants = np.concatenate([step.after(end, rows) for step, end in pairs])
        if self.declared and not self.writing.timed:
            return pl.Series(self.name, instants.astype("M8[D]").astype("M8[ms]")).cast(pl.Date)
        if self.declared:
            cells = pl.Series(self.name, instants)
            return cells.dt.replace_time_zone("UTC") if self.writing.zoned else cells
        if self.writing.order == YEAR:
            return pl.Series(self.name, instants.astype("M8[Y]").astype(int) + 1970)
        return pl.Series(self.name, [written(instant, self.writing) for instant in instants])

    def places(self, name: str, table: DataFrame, series: int, rows: int) -> np.ndarray:
        """Places in a table of the rows that follow those of a series.

        They are its first ones, unless it has the column of the dates.

        Args:
            name: of the table, in messages.
            table: of rows to come, and perhaps of others.
            series: the number of the series.
            rows: how many are needed.

        Raises:
            DataError: for dates that are written in another way, and for one that is missing.
        """
        if not self.column or self.column not in table.columns:
            return np.arange(rows)
        expected = self.steps[series].after(self.ends[series], rows)
        known = _read(table[self.column], self.writing)
        at = {int(tick): row for row, tick in enumerate(known.astype(np.int64))}
        found = np.array([at.get(int(tick), -1) for tick in expected.astype(np.int64)])
        if np.any(found < 0):
            first = expected[np.argmin(found)]
            needed = (written(i, self.writing) for i in (first, expected[0], expected[-1]))
            first, begin, end = needed
            raise DataError(
                f"{name} has no row for {quoted(str(first))} in column {quoted(self.column)}: the "
                f"rows for {begin} to {end} are needed"
            )
        return found

    def to_dict(self) -> TimesRecord:
        """The record of the file, of JSON values."""
        return {
            "column": self.column,
            "order": self.writing.order,
            "timed": self.writing.timed,
            "zoned": self.writing.zoned,
            "declared": self.declared,
            "ends": [str(end) for end in self.ends],
            "steps": [(step.kind, step.count, step.day) for step in self.steps],
        }

    @staticmethod
    def from_dict(known: Mapping[str, Any], series: int) -> "RowTimes":
        """Inverse of `to_dict`.

        Args:
            known: a `TimesRecord`.
            series: how many there are.

        Raises:
            WrongValue: for dates, steps or ways of writing that there are not.
        """
        steps = tuple(Step(*step) for step in known["steps"])
        try:
            ends = tuple(np.datetime64(end, "us") for end in known["ends"])
        except ValueError as error:
            raise WrongValue(f"a time of its rows is no date: {error}") from None
        good = len(ends) == len(steps) == series and known["order"] in (*ORDERS, *_WRITTEN)
        if not good or any(s.count < 1 or not 1 <= s.day <= END_OF_MONTH for s in steps):
            raise WrongValue("the times of its rows have no steps, or are written in no known way")
        writing = Writing(known["order"], timed=known["timed"], zoned=known["zoned"])
        return RowTimes(known["column"], writing, known["declared"], ends, steps)


_WRITTEN = (YEAR, *QUARTERS.values())


def days_of(months: np.ndarray) -> np.ndarray:
    """The number of days of some months."""
    return ((months + 1).astype("M8[D]") - months.astype("M8[D]")).astype(int)


def written(instant: np.datetime64, writing: Writing) -> str | None:
    """An instant as cells are written; None after the year 9999."""
    moment = instant.item()
    if not isinstance(moment, datetime.datetime):
        return None
    if writing.order in QUARTERS.values():
        return f"{moment.strftime(writing.order)}{(moment.month + 2) // 3}"
    clock = ""
    if writing.timed:
        shape = "microseconds" if moment.microsecond else "seconds"
        clock = f" {moment.time().isoformat(shape)}{'+00:00' if writing.zoned else ''}"
    return moment.strftime(writing.order) + clock


def step_of(instants: np.ndarray) -> Step | None:
    """The step of instants that go up in equal steps, of the calendar too; None for others."""
    steps = np.diff(instants.astype("M8[us]").astype(np.int64))
    if not len(steps) or np.min(steps) <= 0:
        return None
    days, months = instants.astype("M8[D]"), instants.astype("M8[M]")
    day, length = (days - months.astype("M8[D]")).astype(int) + 1, days_of(months)
    anchor = END_OF_MONTH if np.all(day == length) else int(np.max(day))
    between = np.diff(months.astype(int))
    at_one_time = not np.ptp((instants - days).astype(np.int64))
    on_one_day = at_one_time and bool(np.all(day == np.minimum(anchor, length)))
    if on_one_day and between[0] > 0 and not np.ptp(between):
        return Step("months", int(between[0]), anchor)
    if not np.ptp(steps):
        return Step("microseconds", int(steps[0]))
    weekdays = at_one_time and bool(np.all(np.is_busday(days)))
    if weekdays and np.all(np.busday_count(days[:-1], days[1:]) == 1):
        return Step("business days", 1)
    return None


def row_times(
    parts: Sequence[DataFrame], chosen: Sequence[str]
) -> tuple[RowTimes | None, str | None]:
    """The times of the rows of a table: the first column of dates that go up in equal steps.

    Args:
        parts: the rows of each series, in their order.
        chosen: columns that are something else.

    Returns:
        The times, and what is to be said where a column of dates has none; None without.
    """
    import polars as pl

    table, said = pl.concat(parts), None
    for name in [name for name in table.columns if name not in chosen]:
        known = _instants(table[name])
        if known is None:
            continue
        writing, declared, instants = known
        bounds = np.cumsum([len(part) for part in parts])[:-1]
        each = np.split(instants, bounds)
        steps = [None if np.any(np.isnat(part)) else step_of(part) for part in each]
        found = [step for step in steps if step is not None]
        column = "" if name in INDEX else name
        if len(found) == len(each):
            ends = tuple(part[-1] for part in each)
            return RowTimes(column, writing, declared, ends, tuple(found)), None
        said = said or (
            f"the dates in {f'column {quoted(name)}' if column else 'the index'} do not go up in "
            "equal steps from row to row, so that forecasts have none"
        )
    return None, said


def _instants(column: Series) -> tuple[Writing, bool, np.ndarray] | None:
    """Writing of a column of dates, whether a file declares them, and instants; None of others."""
    if column.dtype.is_numeric():
        years = column.name.lower() == "year" and not column.null_count()
        return _years(column.to_numpy()) if years else None
    quarters = None if column.dtype.is_temporal() else _quarters(column)
    if quarters is not None:
        return quarters
    try:
        seen = evidence(column)
        if column.name.lower() == "year" and seen.present and seen.numeric == seen.rows:
            return _years(floats(column).to_numpy())
        dates = dates_of(seen.notation())
        if dates is None or dates.writing.order == NO_DATE:
            return None
        numbers = dates.numbers(column)
    except (DataError, ValueError):
        return None
    missing = numbers.is_null().to_numpy()
    instants = dates.shown(numbers.fill_null(0.0).to_numpy()).copy()
    instants[missing] = np.datetime64("NaT")
    return dates.writing, column.dtype.is_temporal(), instants


def _read(column: Series, writing: Writing) -> np.ndarray:
    """The instants of cells that are written as those of a fit; NaT where missing."""
    found = None
    if writing.order == YEAR:
        found = _years(floats(column, strict=False).fill_null(np.nan).to_numpy())
    elif writing.order in QUARTERS.values():
        found = _quarters(column)
    if found is not None:
        return found[2]
    if writing.order in _WRITTEN:
        raise DataError(
            f"column {quoted(column.name)} holds other times than the table of the fit: write "
            f"them like {quoted(str(written(np.datetime64('2020-01-01', 'us'), writing)))}"
        )
    known = Dates("seconds", 0, writing, whole_days=not writing.timed)
    numbers = known.numbers(column)
    instants = known.shown(numbers.fill_null(0.0).to_numpy()).copy()
    instants[numbers.is_null().to_numpy()] = np.datetime64("NaT")
    return instants


def _years(values: np.ndarray) -> tuple[Writing, bool, np.ndarray] | None:
    good = (values >= FIRST_YEAR) & (values <= LAST_YEAR) & (values == np.round(values))
    if not np.all(good):
        return None
    years = (values.astype(int) - 1970).astype("M8[Y]")
    return Writing(YEAR), False, years.astype("M8[us]")


def _quarters(column: Series) -> tuple[Writing, bool, np.ndarray] | None:
    found = [QUARTER.fullmatch(str(cell)) for cell in column.to_list()]
    if not all(found):
        return None
    known = [match for match in found if match is not None]
    months = [12 * (int(m["year"]) - 1970) + 3 * (int(m["quarter"]) - 1) for m in known]
    order = QUARTERS[known[0]["mark"]]
    return Writing(order), False, np.array(months).astype("M8[M]").astype("M8[us]")


def times_of_index(index: Any) -> RowTimes | None:
    """The times of an index of pandas; None where those that follow are not known.

    Args:
        index: of dates or periods, or anything else.
    """
    kind = type(index).__name__
    if kind not in ("DatetimeIndex", "PeriodIndex"):
        return None
    order = ORDERS[0]
    if kind == "PeriodIndex":
        unit = str(index.freqstr).split("-")[0]
        order = {"Q": QUARTERS[""], "M": "%Y-%m", "Y": YEAR, "A": YEAR}.get(unit, order)
        index = index.to_timestamp()
    zoned = index.tz is not None
    index = index.tz_convert("UTC").tz_localize(None) if zoned else index
    instants = np.asarray(index.to_numpy(), "M8[us]")
    step = step_of(instants)
    if step is None:
        return None
    timed = zoned or bool(np.any(instants != instants.astype("M8[D]")))
    timed = timed or (step.kind == "microseconds" and step.count % UNITS["day"] > 0)
    writing = Writing(order, timed=timed, zoned=zoned)
    return RowTimes(str(index.name or ""), writing, False, (instants[-1],), (step,))
