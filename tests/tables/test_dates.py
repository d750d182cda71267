"""Dates and times of a table as numbers with a unit, and back; what cannot be read is named."""

import datetime as dt
import json

import numpy as np
import polars as pl
import pytest

from cavity.columns.column_types import evidence
from cavity.columns.dates import Dates, look_like_days
from cavity.persistence.errors import DataError
from cavity.tables import schema
from cavity.tables.roles import Roles, learn_schema

DAY = dt.date(2020, 12, 30)
NOON = dt.datetime(2020, 12, 30, 12, 0)


def table(*cells, dtype=None):
    return pl.DataFrame({"day": pl.Series(cells, dtype=dtype), "y": np.arange(float(len(cells)))})


def learned(*cells, dtype=None):
    return learn_schema(table(*cells, dtype=dtype), Roles(["y"]))


def encoded(*cells, dtype=None):
    """The numbers, and the notation that they have."""
    whole = learned(*cells, dtype=dtype)
    return schema.encode(table(*cells, dtype=dtype), whole).X[:, 0], whole.notations["day"]


SAME_DAYS = {
    "ISO": ("2020-12-30", "2021-01-31", "2021-02-01"),
    "no zeros": ("2020-12-30", "2021-1-31", "2021-2-1"),
    "slashes, the year first": ("2020/12/30", "2021/01/31", "2021/02/01"),
    "slashes, the day first": ("30/12/2020", "31/01/2021", "1/2/2021"),
    "slashes, the month first": ("12/30/2020", "01/31/2021", "2/1/2021"),
    "hyphens": ("30-12-2020", "31-1-2021", "01-02-2021"),
    "points": ("30.12.2020", "31.01.2021", "1.2.2021"),
    "names": ("30 DEC 2020", "31-Jan-2021", "1 February 2021"),
    "names first": ("Dec 30, 2020", "January 31, 2021", "Feb 1, 2021"),
    "midnights": ("2020-12-30 00:00:00", "2021-01-31 00:00", "2021-02-01T00:00"),
    "typed": (DAY, dt.date(2021, 1, 31), dt.date(2021, 2, 1)),
    "typed midnights": (*map(dt.datetime, [2020, 2021, 2021], [12, 1, 2], [30, 31, 1]),),
}


@pytest.mark.parametrize("cells", SAME_DAYS.values(), ids=SAME_DAYS)
def test_days_are_counted_from_the_first(cells):
    numbers, dates = encoded(*cells)
    expected = [(d - DAY).days for d in (DAY, dt.date(2021, 1, 31), dt.date(2021, 2, 1))]
    np.testing.assert_array_equal(numbers, expected)
    assert (dates.unit, dates.noun) == ("days", "date")
    assert [dates.text(n) for n in numbers] == ["2020-12-30", "2021-01-31", "2021-02-01"]
    assert dates.shown(numbers)[0] == np.datetime64("2020-12-30")


TIMES = {
    "hours": (("2020-12-30 12:00", "2020-12-31 12:30"), [12.0, 36.5]),
    "minutes": (("2020-12-30T12:00:00", "2020-12-30T12:30:15"), [0.0, 30.25]),
    "seconds": (("2020-12-30 12:00", "2020-12-30 12:00:02.5"), [0.0, 2.5]),
    "days": (("12/30/2020 6:00 AM", "1/30/2021 12:00 pm"), [0.25, 31.5]),
    "typed": ((NOON, NOON + dt.timedelta(days=1)), [12.0, 36.0]),
}


@pytest.mark.parametrize("name", TIMES)
def test_the_unit_of_times_fits_their_spread(name):
    cells, expected = TIMES[name]
    numbers, dates = encoded(*cells)
    np.testing.assert_allclose(numbers, expected, rtol=1e-12)
    assert dates.unit == ("hours" if name == "typed" else name)
    assert dates.noun == "date and time"


def test_time_zones_are_told_in_universal_time():
    """Summer and winter time of Berlin, as text and typed."""
    cells = ("2020-06-01T12:00:00+02:00", "2020-12-01T12:00:00+01:00", "2020-12-02T00:00:00Z")
    numbers, dates = encoded(*cells)
    # noon in Berlin is 10 o'clock of universal time in summer, 11 o'clock in winter
    np.testing.assert_allclose(numbers * 24, [10, 183 * 24 + 11, 184 * 24], rtol=1e-12)
    assert dates.text(numbers[0]) == "2020-06-01 10:00:00 UTC"
    naive = [dt.datetime(2020, 6, 1, 12), dt.datetime(2020, 12, 1, 12)]
    typed = pl.Series(naive).dt.replace_time_zone("Europe/Berlin")
    again, of_typed = encoded(*typed, dtype=typed.dtype)
    np.testing.assert_allclose(again, numbers[:2])
    assert of_typed.text(again[0]) == dates.text(numbers[0])


@pytest.mark.parametrize("cells", [("10:30", "9:05:30"), (dt.time(10, 30), dt.time(9, 5, 30))])
def test_times_of_day_are_since_midnight(cells):
    numbers, dates = encoded(*cells)
    np.testing.assert_allclose(numbers * 60.0, [630.0, 545.5])
    assert (dates.noun, dates.since) == ("time of day", "hours since midnight")
    np.testing.assert_allclose(dates.shown(numbers), numbers)
    assert [dates.text(n) for n in numbers] == ["10:30:00", "09:05:30"]


def test_numbers_that_look_like_days():
    assert look_like_days(np.array([20200131.0, 20200201.0]))
    assert not look_like_days(np.array([20200131.0, 20200132.0]))
    assert not look_like_days(np.array([20200131.0, 7.0]))
    assert not look_like_days(np.array([20200131.5]))


def test_months_are_their_first_days():
    numbers, dates = encoded("1949-01", "1949-02", "1949-12")
    np.testing.assert_array_equal(numbers, [0, 31, 334])
    assert dates.text(31.0) == "1949-02-01"
    slashed, of_slashed = encoded("1949/01", "1949/02", "1949/12")
    np.testing.assert_array_equal(slashed, numbers)
    whole = learned("1949/01", "1949/12")
    new = schema.encode(pl.DataFrame({"day": ["1950/01"]}), whole, need_targets=False)
    assert new.X[0, 0] == 365.0
    with pytest.raises(DataError, match=r"row 1: '1950-01' is not a date .* such as '2020/12'"):
        schema.encode(pl.DataFrame({"day": ["1950-01"]}), whole, need_targets=False)
    assert of_slashed.text(31.0) == "1949-02-01"


SEASONS = ["1999-00", *(f"20{y:02}-{y + 1:02}" for y in range(12)), "n/a"]
SEVERAL = {
    "hyphens": SEASONS,
    "slashes": [season.replace("-", "/") for season in SEASONS[:-1]],
    # each of them could be a month, but months are not 13 months apart
    "slashes, all like months": ["2005/06", "2006/07", "2007/08"],
}


@pytest.mark.parametrize("cells", SEVERAL.values(), ids=SEVERAL)
def test_seasons_are_categories(cells):
    """Years that follow each other, of which some look like months."""
    assert learned(*cells, *cells).inputs[0].kind == "categorical"
    parts = [evidence(pl.Series("day", half)) for half in (cells[:1], cells[1:])]
    assert (parts[0] + parts[1]).notation() is None


def test_months_that_are_none_are_no_seasons():
    with pytest.raises(DataError, match="row 6: '2020-13' is not a date, but the column"):
        learned("2020-08", "2020-09", "2020-10", "2020-11", "2020-12", "2020-13")


def test_a_schema_is_the_same_after_json():
    whole = learned("2020-12-30 10:00", "2020-12-31 12:30")
    record = json.loads(json.dumps(whole.to_dict()))
    assert schema.Schema.from_dict(record) == whole
    assert isinstance(whole.notations["day"], Dates)


def test_the_same_day_and_month_are_not_ambiguous():
    numbers, dates = encoded("01/01/2020", "02/02/2020")
    np.testing.assert_array_equal(numbers, [0, 32])
    assert dates.text(0.0) == "2020-01-01"


@pytest.mark.parametrize("none", ["", "NaN", "NaT"])
def test_missing_dates_are_missing_numbers(none):
    cells = table("2020-12-30", none, None, "2020-12-31")
    whole = learn_schema(cells, Roles(["y"]))
    with pytest.raises(DataError, match=r"'day', row 2: the cell is missing \(2 of 4"):
        schema.encode(cells, whole)
    np.testing.assert_array_equal(schema.encode(cells, whole, drop_missing=True).X[:, 0], [0, 1])


def test_new_tables_may_be_typed_and_reach_further():
    whole = learned("30.12.2020", "31.12.2020")
    for day in ("1.1.2022", dt.date(2022, 1, 1), dt.datetime(2022, 1, 1)):
        new = pl.DataFrame({"day": [day]})
        assert schema.encode(new, whole, need_targets=False).X[0, 0] == 367.0
    half_day = pl.DataFrame({"day": ["31.12.2020 12:00"]})
    assert schema.encode(half_day, whole, need_targets=False).X[0, 0] == 1.5


NEW = {
    "another order": (["31.12.2020", "12/31/2020"], "row 2: '12/31/2020' is not a date that is"),
    "no date": (["soon"], "row 1: 'soon' is not a date that is written .* '31.12.2020'"),
    "numbers": ([20201231], "holds Int64 values, and the model was fitted to the date"),
    "with a zone": (
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)],
        "holds times with a time zone, and the model was fitted to times without one",
    ),
}


@pytest.mark.parametrize("name", NEW)
def test_new_tables_that_are_written_otherwise(name):
    cells, message = NEW[name]
    whole = learned("30.12.2020", "31.12.2020")
    with pytest.raises(DataError, match=message):
        schema.encode(pl.DataFrame({"day": cells}), whole, need_targets=False)


REFUSED = {
    "two formats": (
        ("2020-12-30", "2020-12-31", "31/12/2020"),
        r"two formats: row 1 \('2020-12-30'\) and row 3 \('31/12/2020'\).*write all of them alike",
    ),
    "two orders": (
        ("31/12/2020", "01/02/2020", "12/31/2020"),
        r"two formats: row 1 \('31/12/2020'\) and row 3 \('12/31/2020'\)",
    ),
    "two zones": (
        ("2020-12-30 10:00", "2020-12-31T11:30:00Z"),
        r"row 1 .* and row 2 .*one with a time zone and one without",
    ),
    "times and none": (
        ("2020-12-30 10:00", "2020-12-31"),
        r"row 1 .* and row 2 .*one with a time and one without",
    ),
    "ambiguous": (
        ("05/05/2020", "01/02/2020", "03/04/2020"),
        r"two ways: row 2 \('01/02/2020'\) is 01 February 2020 or 02 January 2020.*2020-12-31.*"
        "--ignore day",
    ),
    "short years": (("31/12/20", "30/12/20"), r"cannot be read, such as row 1.*four digits"),
    "a short year": (("31/12/2020", "1.1.21"), "row 2: '1.1.21' cannot be read as a date like"),
    "no day": (("2020-02-29", "2020-02-30"), "row 2: '2020-02-30' cannot be read.*calendar"),
    "a word for none": (("2020-12-30", "n/a"), "row 2: 'n/a' is not a date.*a missing one empty"),
    "hours": (
        ("25:30", "48:00"),
        r"row 1 \('25:30'\): hours go from 0 to 23.*durations should be written as numbers",
    ),
    "an hour": (("10:30", "24:00"), "row 2: '24:00' cannot be read.*hours go from 0 to 23"),
    "24 hours": (
        ("2020-12-30 23:00:00", "2020-12-31 24:00:00"),
        "row 2: '2020-12-31 24:00:00' cannot be read.*hours go from 0 to 23",
    ),
    "60 minutes": (("10:60", "10:75"), "row 1 .*minutes and seconds from 0 to 59"),
    "short years, names": (
        ("31-Dec-20", "1 Jan 21"),
        "cannot be read, such as row 1.*four digits",
    ),
    "short years, names first": (("Dec 31, 20", "January 1 21"), "row 1.*four digits"),
    "months by name": (("Dec 2020", "January 2021"), "row 1.*months .* are written as 2020-12"),
    "a word": (("2020-12-30",) * 5 + ("soon",), "row 6: 'soon' is not a date, but the column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_dates_that_cannot_be_told(name):
    cells, message = REFUSED[name]
    with pytest.raises(DataError, match=message):
        learned(*cells)


NO_DATES = ["2019-2020", "90210-1234", "555-1234", "12x34y5678", "1234567890z", "1a2b2020"]


@pytest.mark.parametrize("text", [*NO_DATES, "2020-12/31", "12.31-2020"])
def test_other_texts_of_digits_are_categories(text):
    assert learned(text, text, "other").inputs[0].kind == "categorical"
    assert evidence(pl.Series("day", [text, text])).dates.alike == 0


def test_numbers_of_ten_digits_are_no_dates():
    """Where they are most of a column, in which another cell is no number."""
    with pytest.raises(DataError, match="row 6: 'x' is not a number"):
        learned(*["1234567890"] * 5, "x")


def test_instants_of_a_day_are_shown_as_that_day():
    _, dates = encoded("2020-01-01", "2020-01-05")
    assert dates.text(5 - 1 / 1440) == "2020-01-05"
    assert dates.text(4.5) == "2020-01-05"
    assert dates.text(-0.25) == "2019-12-31"
    # what arithmetic loses is no day
    assert dates.text(4 - 1e-10) == "2020-01-05"


@pytest.mark.parametrize("roles", [(["day"],), (["y"], [], "day"), (["y"], [], None, "day")])
def test_dates_are_inputs_only(roles):
    cells = table("2020-12-30", "2020-12-31").with_columns(x=1.0)
    with pytest.raises(DataError, match=r"'day' holds dates or times.*days .or hours. since"):
        learn_schema(cells, Roles(*roles))


def test_every_instant_of_a_typed_table_comes_back():
    """Random microseconds within some days of a year between 1 and 9999."""
    rng = np.random.default_rng(0)
    ticks = rng.integers(-62_135_596_800_000_000, 253_402_300_799_999_999, 1)
    near = pl.Series(ticks[0] + rng.integers(0, 10**12, 50)).cast(pl.Datetime("us"))
    numbers, dates = encoded(*near, dtype=near.dtype)
    np.testing.assert_array_equal(dates.shown(numbers), near.to_numpy())


PARTS = (
    *(cells for cells, _ in REFUSED.values()),
    *SAME_DAYS.values(),
    *(cells for cells, _ in TIMES.values()),
    ("12", "1,234", "56"),
    ("1.5", "1,234.5", "7"),
    ("a", "b", "2020-01-01"),
    ("2020-01-01", "7", "8.5"),
    ("7", "NaN", "8.5", "2020-01-01"),
    ("7", *("2020-01-01",) * 9),
)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("cells", PARTS)
def test_a_table_in_parts_shows_what_the_whole_one_does(cells):
    """The same notation or the same complaint, rows counted over all parts."""
    whole = evidence(pl.Series("day", cells))
    for cut in range(1, len(cells)):
        parts = [evidence(pl.Series("day", part)) for part in (cells[:cut], cells[cut:])]
        assert outcome(parts[0] + parts[1]) == outcome(whole)


def outcome(column):
    try:
        return column.notation(), column.kind()
    except DataError as error:
        return str(error)
