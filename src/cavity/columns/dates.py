"""Columns of dates and times of day: numbers with a unit, counted from an origin.

Instants are microseconds, of dates and times since 1970, of times of day since midnight. With a
time zone they are those of UTC.
"""

import dataclasses
import datetime
import re
from typing import Literal

import numpy as np

from cavity.columns import cells
from cavity.columns.frames import Series, floats
from cavity.numerics.text import quoted
from cavity.persistence.errors import CellError, DataError
from cavity.persistence.typed_values import Whole

Unit = Literal["days", "hours", "minutes", "seconds"]
MICROSECONDS: dict[Unit, int] = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
}
DAY = MICROSECONDS["days"]
# A unit is the largest of which the column spans so many.
MANY_UNITS = 20
ISO, NO_DATE = "%Y-%m-%d", ""
# Months, which stand for their first days.
SLASHED_MONTHS = "%Y/%m"
MONTHS = ("%Y-%m", SLASHED_MONTHS)
# How dates are written, by Python's codes; %b is the name of a month, short or long.
DAYS_AND_MONTHS = ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%m.%d.%Y")
ORDERS = (
    *(ISO, "%Y/%m/%d", "%Y.%m.%d", *MONTHS),
    *DAYS_AND_MONTHS,
    *("%d %b %Y", "%b %d %Y"),
    NO_DATE,
)
_YEAR, _TWO = "[0-9]{4}", "[0-9]{1,2}"
_MARKS = tuple(re.escape(mark) for mark in "-/.")
_MONTH = (
    "(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATES = (
    *(f"{_YEAR}{mark}{_TWO}{mark}{_TWO}" for mark in _MARKS),
    *(f"{_TWO}{mark}{_TWO}{mark}{_YEAR}" for mark in _MARKS),
    f"{_TWO}[ .-]+{_MONTH}[ .,-]+{_YEAR}",
    f"{_MONTH}[. ]+{_TWO},? {_YEAR}",
    # other numbers of this form have years or months out of range
    "(?:1[5-9]|2[0-4])[0-9]{2}[-/](?:0[1-9]|1[0-2])",
)
_TIME = rf"(?P<time>{_TWO}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.,][0-9]{{1,9}})?)?)"
_CLOCK = (
    rf"{_TIME}(?: ?(?P<twelve>[AaPp]\.?[Mm]\.?))? ?(?P<zone>Z|UTC|[+-][0-9]{{2}}:?[0-9]{{2}})?"
)
CELL = rf"^(?:(?P<date>{'|'.join(_DATES)})(?:(?:T| +){_CLOCK})?)$"
TIME_CELL = f"^{_CLOCK}$"
# Dates that are refused: with years of two digits, and months by name without a day.
SHORT_YEAR = (
    f"^(?:{_TWO}[-/.]{_TWO}[-/.][0-9]{{2}}|{_TWO}[ .-]+{_MONTH}[ .,-]+[0-9]{{2}}"
    f"|{_MONTH}[. ]+{_TWO},? [0-9]{{2}})(?:[T ].*)?$"
)
NAMED_MONTH = f"^{_MONTH}[ .,-]+{_YEAR}$"
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # of the years 1 to 9999


@dataclasses.dataclass(frozen=True)
class Writing:
    """Notation of the cells of a column of dates.

    Attributes:
        order: year, month and day, by Python's codes; empty for a time of day alone.
        timed: whether there is a time.
        zoned: whether there is a time zone.
    """

    order: str = ISO
    timed: bool = False
    zoned: bool = False


@dataclasses.dataclass(frozen=True)
class Dates:
    """A column of dates as numbers.

    Attributes:
        unit: of the numbers.
        origin: the instant that is 0.
        writing: how its cells are written where they are text.
        whole_days: whether the table that it was learned from had dates without times.
    """

    unit: Unit
    origin: Whole
    writing: Writing
    whole_days: bool

    @staticmethod
    def spanning(low: int, high: int, writing: Writing, *, whole_days: bool) -> "Dates":
        """The unit and the origin of a column from its first and its last instant."""
        units: list[Unit] = [*MICROSECONDS]
        whole_days = whole_days and writing.order != NO_DATE
        spread = DAY * MANY_UNITS if whole_days else high - low
        large: list[Unit] = [u for u in units if spread >= MANY_UNITS * MICROSECONDS[u]]
        unit: Unit = large[0] if large else "seconds"
        unit = "hours" if writing.order == NO_DATE else unit
        coarser = MICROSECONDS[units[max(units.index(unit) - 1, 0)]]
        origin = 0 if writing.order == NO_DATE else low - low % coarser
        return Dates(unit, origin, writing, whole_days)

    @property
    def noun(self) -> str:
        """Noun for the column's values in messages."""
        if self.writing.order == NO_DATE:
            return "time of day"
        return "date" if self.whole_days else "date and time"

    @property
    def since(self) -> str:
        """The unit and the origin in words: "days since 2020-01-01"."""
        midnight = self.writing.order == NO_DATE
        return f"{self.unit} since {'midnight' if midnight else self.text(0.0)}"

    def numbers(self, column: Series) -> Series:
        """The cells of a column as numbers, null where missing.

        Raises:
            DataError: naming the first cell that is no such date, or a column of numbers.
        """
        import polars as pl

        if column.dtype == pl.Null:
            return floats(column)
        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            raise DataError(
                f"column '{column.name}' holds {column.dtype} values, and the model was fitted to "
                f"the {self.noun} in it; give it as a {self.noun}, such as {self.text(0.0)}"
            )
        ticks, cell = self._instants(column)
        wrong = np.flatnonzero((cell.is_not_null() & ticks.is_null()).to_numpy())
        if len(wrong):
            row = int(wrong[0])
            raise CellError(column.name, row, self._complaint(cell[row]))
        unit = MICROSECONDS[self.unit]
        return floats(ticks - self.origin) / unit

    def _instants(self, column: Series) -> tuple[Series, Series]:
        """The instants, and the cells."""
        if not column.dtype.is_temporal():
            cell = without_no_dates(cells.text(column))
            return instants(cell, self.writing.order, zoned=self.writing.zoned), cell
        refuse_durations(column)
        if written_as(column).zoned != self.writing.zoned:
            with_zone, without = "with a time zone", "without one"
            fitted, present = (with_zone, without)[:: 1 if self.writing.zoned else -1]
            raise DataError(
                f"column '{column.name}' holds times {present}, and the model was fitted to times "
                f"{fitted}; convert the column"
            )
        return typed_instants(column), column

    def _complaint(self, cell: str) -> str:
        return (
            f"{quoted(cell)} is not a {self.noun} that is written as those of the fit, such as "
            f"'{written_example(self.writing)}'; correct the cell (leave a missing one empty)"
        )

    def shown(self, values: np.ndarray) -> np.ndarray:
        """Numbers of the column for an axis: instants in UTC, or hours for times of day."""
        instants = self._moments(values)
        if self.writing.order != NO_DATE:
            # an axis rounds to the next year what comes after, and has no year 10000
            return np.minimum(instants, np.datetime64(_LAST - MICROSECONDS["seconds"], "us"))
        return (instants - np.datetime64(0, "us")) / np.timedelta64(1, "h")

    def _moments(self, values: np.ndarray) -> np.ndarray:
        """Numbers of the column as numpy instants; times of day are of 1970-01-01."""
        ticks = np.rint(np.asarray(values, float) * MICROSECONDS[self.unit])
        # whole numbers, because sums of large ones lose microseconds as floating-point numbers
        whole = np.clip(ticks, _FIRST - self.origin, _LAST - self.origin).astype("int64")
        return np.clip(whole + self.origin, _FIRST, _LAST).astype("datetime64[us]")

    def text(self, value: float) -> str:
        """A number of the column as a date or a time.

        Of whole days it is the day in which the instant lies, give or take a millisecond.
        """
        if self.whole_days:
            value = np.floor(value + 1e-8)
        instant: datetime.datetime = self._moments(np.array([value]))[0].item()
        if self.whole_days:
            return instant.date().isoformat()
        shape = "microseconds" if instant.microsecond else "seconds"
        if self.writing.order == NO_DATE:
            return instant.time().isoformat(shape)
        return instant.isoformat(" ", shape) + (" UTC" if self.writing.zoned else "")


def written_example(writing: Writing) -> str:
    """The last afternoon of 2020 in some writing."""
    clock = " 17:30:00" if writing.timed else ""
    zone = "+00:00" if writing.zoned else ""
    moment = datetime.date(2020, 12, 31).strftime(writing.order)
    return f"{moment}{clock}{zone}".strip()


def without_no_dates(cell: Series) -> Series:
    """Texts with null for placeholders of missing dates, such as NaT."""
    import polars as pl

    none = pl.col("cell").str.contains("(?i)^na[nt]$")
    frame = cell.to_frame("cell")
    return frame.select(pl.when(~none).then(pl.col("cell")).alias(cell.name)).to_series()


def look_like_days(values: np.ndarray) -> bool:
    """True if all numbers are days of the last centuries without marks, such as 20201231."""
    import polars as pl

    if not np.all((values > 17_000_101) & (values < 22_000_101) & (values % 1 == 0)):
        return False
    texts = pl.Series(values).cast(pl.Int64).cast(pl.String)
    return texts.str.to_date("%Y%m%d", strict=False).null_count() == 0


def refuse_durations(column: Series) -> None:
    """Lets dates and times pass.

    Raises:
        DataError: for durations.
    """
    import polars as pl

    if column.dtype == pl.Duration:
        raise DataError(
            f"column '{column.name}' holds durations; turn them into numbers first (such as "
            f"hours), or leave the column out with --ignore {column.name}"
        )


def written_as(column: Series) -> Writing:
    """Notation for dates that a file declares as such."""
    import polars as pl

    if isinstance(column.dtype, pl.Datetime):
        return Writing(ISO, timed=True, zoned=column.dtype.time_zone is not None)
    return Writing(ISO) if column.dtype == pl.Date else Writing(NO_DATE, timed=True)


def typed_instants(column: Series) -> Series:
    """The instants of a column that a file declares as dates or times, null where missing."""
    import polars as pl

    if column.dtype == pl.Time:
        return column.to_physical() // 1000
    wide = column.cast(pl.Datetime("us", getattr(column.dtype, "time_zone", None)))
    ticks = wide.to_physical()
    outside = np.flatnonzero(~ticks.is_between(_FIRST, _LAST).fill_null(value=True).to_numpy())
    if len(outside):
        story = "the date is outside the years 1 to 9999; correct the cell"
        raise CellError(column.name, int(outside[0]), story)
    return ticks


def instants(cell: Series, order: str, *, zoned: bool) -> Series:
    """The instants of cells that are written in some order, null where they are not.

    Args:
        cell: texts.
        order: one of `ORDERS`.
        zoned: whether they have a time zone.
    """
    import polars as pl

    fields = pl.col("cell").str.extract_groups(TIME_CELL if order == NO_DATE else CELL).struct
    date = pl.lit("1970-01-01") if order == NO_DATE else fields.field("date")
    if "%b" in order:
        date = date.str.replace_all("[ .,-]+", " ").str.to_titlecase()
        date = date.str.replace("([A-Z][a-z]{2})[a-z]*", "$1")
    code = order or ISO
    if order in MONTHS:
        mark = order[2]
        date, code = date + f"{mark}01", f"{order}{mark}%d"
    full = "^([0-9]+:[0-9]+)$"
    clock = fields.field("time").str.replace(full, "${1}:00").str.replace(",", ".", literal=True)
    if order != NO_DATE:
        clock = clock.fill_null("00:00:00")
    twelve = fields.field("twelve").str.replace_all(".", "", literal=True).fill_null("")
    zone = fields.field("zone").str.replace("Z|UTC", "+00:00").fill_null("")
    moment = pl.concat_str(date, pl.lit(" "), clock, twelve, zone)
    codes = [f"{code} {time}{'%z' if zoned else ''}" for time in ("%H:%M:%S%.f", "%I:%M:%S%.f%p")]
    read = [moment.str.to_datetime(code, strict=False, time_unit="us") for code in codes]
    return cell.to_frame("cell").select(pl.coalesce(read)).to_series().to_physical()
