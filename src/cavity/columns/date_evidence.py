"""Evidence about dates in a column and how they are written, part by part."""

import dataclasses
import functools
import itertools
import operator
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from cavity.columns.cells import MISSING_WORDS
from cavity.columns.dates import (
    CELL,
    DAY,
    DAYS_AND_MONTHS,
    NAMED_MONTH,
    ORDERS,
    SHORT_YEAR,
    SLASHED_MONTHS,
    TIME_CELL,
    Dates,
    Writing,
    instants,
    typed_instants,
    without_no_dates,
    written_as,
)
from cavity.columns.frames import Series
from cavity.numerics.text import quoted
from cavity.persistence.errors import CellError, DataError

# From this share of dates on, the other cells are taken for mistakes.
MOSTLY_DATES = 0.8
# Orders that read none of the first cells of a part are not tried on the others.
TRIED = 100
_SEASON = "^([0-9]{4})[-/]([0-9]{2})$"
_HOUR_AND_MINUTES = re.compile("([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")


class Cell(NamedTuple):
    """A cell by its row, counted from 0, and its text."""

    row: int
    text: str

    def further_down(self, rows: int) -> "Cell":
        """The same cell of a table in which so many rows come before."""
        return Cell(self.row + rows, self.text)

    def __str__(self) -> str:
        return f"row {self.row + 1} ({quoted(self.text)})"


@dataclasses.dataclass(frozen=True)
class Span:
    """The cells of a column that are dates in one writing.

    Attributes:
        count: how many.
        read: the first.
        unread: the first cell that is none, or None.
        low: the first instant.
        high: the last one.
        whole_days: whether all are midnights.
    """

    count: int
    read: Cell
    unread: Cell | None
    low: int
    high: int
    whole_days: bool

    def __add__(self, other: "Span") -> "Span":
        return Span(
            self.count + other.count,
            self.read,
            self.unread or other.unread,
            min(self.low, other.low),
            max(self.high, other.high),
            self.whole_days and other.whole_days,
        )

    def further_down(self, rows: int) -> "Span":
        """The same of a table in which so many rows come before."""
        unread = self.unread and self.unread.further_down(rows)
        return dataclasses.replace(self, read=self.read.further_down(rows), unread=unread)


@dataclasses.dataclass(frozen=True)
class DateEvidence:
    """Evidence about the dates in a column.

    Attributes:
        first: the first cell that is not missing.
        present: cells that are not missing.
        words: those that are words for a missing value.
        alike: those that look like dates, readable or not.
        seasons: those with two years that follow each other, such as 1999-00.
        two_ways: the first that is one date with the day first and another with the month first.
        spans: by writing, the cells that are dates in it.
    """

    first: Cell | None = None
    present: int = 0
    words: int = 0
    alike: int = 0
    seasons: int = 0
    two_ways: Cell | None = None
    spans: Mapping[Writing, Span] = dataclasses.field(default_factory=dict)

    def followed_by(self, other: "DateEvidence", rows: int) -> "DateEvidence":
        """Evidence about this column followed by `other` after so many rows."""
        first = other.first and other.first.further_down(rows)
        later = {writing: span.further_down(rows) for writing, span in other.spans.items()}
        spans: dict[Writing, Span] = {}
        for writing in {**self.spans, **later}:
            earlier_span, later_span = self.spans.get(writing), later.get(writing)
            if earlier_span and later_span:
                spans[writing] = earlier_span + later_span
            elif earlier_span:
                unread = earlier_span.unread or first
                spans[writing] = dataclasses.replace(earlier_span, unread=unread)
            elif later_span:
                unread = self.first or later_span.unread
                spans[writing] = dataclasses.replace(later_span, unread=unread)
        two_ways = self.two_ways or (other.two_ways and other.two_ways.further_down(rows))
        return DateEvidence(
            self.first or first,
            self.present + other.present,
            self.words + other.words,
            self.alike + other.alike,
            self.seasons + other.seasons,
            two_ways,
            spans,
        )

    def dates(self, name: str) -> Dates | None:
        """Parser for the dates of a column; None if it holds no dates.

        Raises:
            DataError: for dates of several forms, and dates that can be read in several ways.
        """
        if not self.alike or self.alike < MOSTLY_DATES * (self.present - self.words):
            return None
        if self._are_seasons and self.alike < self.seasons:
            return None
        readings = {w: span for w, span in self.spans.items() if span.count == self.present}
        if not readings:
            self._refuse_forms(name)
        writing, span = next(iter(readings.items()))
        if self._are_seasons and writing.order == SLASHED_MONTHS:
            return None
        # with points between them, days come before months wherever that is used
        if len(readings) > 1 and self.two_ways and writing.order != "%d.%m.%Y":
            raise DataError(
                f"column '{name}' holds dates that can be read in two ways: {self.two_ways} is "
                f"{' or '.join(_day(self.two_ways, w) for w in readings)}, and no other row tells "
                f"which; write them as year-month-day (2020-12-31), or leave the column out with "
                f"--ignore {name}"
            )
        return Dates.spanning(span.low, span.high, writing, whole_days=span.whole_days)

    @property
    def _are_seasons(self) -> bool:
        """True if every cell may be a season, which of some cells is a month too."""
        return self.seasons == self.present - self.words

    def _refuse_forms(self, name: str) -> None:
        """Complains of the first cell that is not written as most are."""
        remedy = (
            "write all of them alike, best as 2020-12-31 or 2020-12-31 17:30:00, or leave the "
            f"column out with --ignore {name}"
        )
        if not self.spans:
            assert self.first is not None
            raise DataError(
                f"column '{name}' holds dates or times that cannot be read, such as {self.first}: "
                f"{_broken_rule(self.first.text)}; {remedy}"
            )
        writing, span = max(self.spans.items(), key=lambda item: item[1].count)
        assert span.unread is not None
        if not looks_like_date(span.unread.text):
            story = (
                f"'{span.unread.text}' is not a date, but the column holds dates such as "
                f"'{span.read.text}'; correct the cell (leave a missing one empty), or leave the "
                f"column out with --ignore {name}"
            )
            raise CellError(name, span.unread.row, story)
        if not writings(span.unread.text):
            story = (
                f"'{span.unread.text}' cannot be read as a date like '{span.read.text}' of row "
                f"{span.read.row + 1}: {_broken_rule(span.unread.text)}"
            )
            raise CellError(name, span.unread.row, f"{story}; {remedy}")
        first, second = sorted([span.read, span.unread])
        raise DataError(
            f"column '{name}' holds dates in two formats: {first} and {second} are "
            f"written differently{_difference(writing, span.unread.text)}; {remedy}"
        )


def _broken_rule(text: str) -> str:
    """Reason why a text that looks like a date or a time cannot be read."""
    clock = _HOUR_AND_MINUTES.search(text)
    hour, *smaller = (int(digits or 0) for digits in clock.groups()) if clock else (0, 0)
    if hour > 23 or max(smaller) > 59:
        return (
            "hours go from 0 to 23, minutes and seconds from 0 to 59 (durations should be written "
            "as numbers, such as 25.5 hours)"
        )
    if re.search(NAMED_MONTH, text):
        return "a date has a day, and months without one are written as 2020-12"
    return "a year has four digits, and day and month must be those of the calendar"


def _difference(writing: Writing, text: str) -> str:
    """Difference between a cell and the notation of the others, beside the order of its parts."""
    same_order = [w for w in writings(text) if w.order == writing.order]
    if not same_order:
        return ""
    if same_order[0].zoned != writing.zoned:
        return ", one with a time zone and one without"
    return ", one with a time and one without"


def _day(cell: Cell, writing: Writing) -> str:
    """A date read in a given format, with the name of its month."""
    import polars as pl

    ticks = instants(pl.Series([cell.text]), writing.order, zoned=writing.zoned)
    return f"{ticks.cast(pl.Datetime('us'))[0]:%d %B %Y}"


def looks_like_date(text: str) -> bool:
    """True if a text has the form of a date or a time."""
    import polars as pl

    return bool(_alike(pl.Series([text]))[0])


def writings(text: str) -> list[Writing]:
    """Notations in which a text is a date."""
    import polars as pl

    return [*date_evidence(pl.Series([text])).spans]


def _alike(cell: Series) -> Series:
    forms = [cell.str.contains(form) for form in (CELL, TIME_CELL, SHORT_YEAR, NAMED_MONTH)]
    return functools.reduce(operator.or_, forms).fill_null(value=False)


def _seasons(cell: Series) -> Series:
    """True for cells that are years with the last digits of the next year after them."""
    import polars as pl

    years = pl.col("cell").str.extract_groups(_SEASON).struct
    first, second = (years.field(name).cast(pl.Int32) for name in "12")
    frame = cell.to_frame("cell").select((first + 1) % 100 == second)
    return frame.to_series().fill_null(value=False)


def date_evidence(cell: Series) -> DateEvidence:
    """Evidence about dates in cells of text.

    Args:
        cell: the cells as `cells.text` gives them.
    """
    cell = without_no_dates(cell)
    present = np.flatnonzero(cell.is_not_null().to_numpy())
    plain = _presence(cell, present)
    if plain.first is None:
        return plain
    alike = int(_alike(cell).sum())
    spans = dict(_spans(cell, present)) if alike else {}
    return dataclasses.replace(
        plain,
        words=int(cell.str.to_lowercase().is_in([*MISSING_WORDS]).sum()),
        alike=alike,
        seasons=int(_seasons(cell).sum()),
        two_ways=_in_two_ways(cell, spans),
        spans=spans,
    )


def dateless_evidence(cell: Series) -> DateEvidence:
    """Evidence about dates in cells of text that are all numbers.

    Args:
        cell: the cells as `cells.text` gives them.
    """
    cell = without_no_dates(cell)
    return _presence(cell, np.flatnonzero(cell.is_not_null().to_numpy()))


def _presence(cell: Series, present: np.ndarray) -> DateEvidence:
    """The first of the cells that are not missing, and their number."""
    if not len(present):
        return DateEvidence()
    row = int(present[0])
    return DateEvidence(Cell(row, cell[row]), len(present))


def _in_two_ways(cell: Series, spans: Mapping[Writing, Span]) -> Cell | None:
    orders = {writing.order for writing in spans}
    zones = {writing.zoned for writing in spans}
    pairs = zip(DAYS_AND_MONTHS[::2], DAYS_AND_MONTHS[1::2], strict=True)
    for pair, zoned in itertools.product(pairs, zones):
        days, months = (instants(cell, order, zoned=zoned) for order in pair)
        rows = np.flatnonzero((days != months).fill_null(value=False).to_numpy())
        if {*pair} <= orders and len(rows):
            return Cell(int(rows[0]), cell[int(rows[0])])
    return None


def _spans(cell: Series, present: np.ndarray) -> Iterator[tuple[Writing, Span]]:
    head = cell.drop_nulls().head(TRIED)
    timed = cell.str.contains(":", literal=True).fill_null(value=False).to_numpy()
    for order, zoned in itertools.product(ORDERS, (False, True)):
        if instants(head, order, zoned=zoned).null_count() == len(head):
            continue
        ticks = instants(cell, order, zoned=zoned)
        readable = ticks.is_not_null().to_numpy()
        for has_time in (False, True):
            rows = np.flatnonzero(readable & (timed == has_time))
            if len(rows):
                span = _span(cell, ticks.gather(rows).to_numpy(), rows, present)
                yield Writing(order, has_time, zoned), span


def _span(cell: Series, ticks: np.ndarray, rows: np.ndarray, present: np.ndarray) -> Span:
    others = np.setdiff1d(present, rows, assume_unique=True)
    return Span(
        count=len(rows),
        read=Cell(int(rows[0]), cell[int(rows[0])]),
        unread=Cell(int(others[0]), cell[int(others[0])]) if len(others) else None,
        low=int(ticks.min()),
        high=int(ticks.max()),
        whole_days=bool(np.all(ticks % DAY == 0)),
    )


def typed_evidence(column: Series) -> DateEvidence:
    """Evidence about a column that a file declares as dates or times."""
    ticks = typed_instants(column)
    rows = np.flatnonzero(ticks.is_not_null().to_numpy())
    if not len(rows):
        return DateEvidence()
    first, values = Cell(int(rows[0]), str(column[int(rows[0])])), ticks.gather(rows).to_numpy()
    writing = written_as(column)
    whole_days = bool(np.all(values % DAY == 0))
    span = Span(len(rows), first, None, int(values.min()), int(values.max()), whole_days)
    return DateEvidence(first, len(rows), alike=len(rows), spans={writing: span})
