"""Times of rows: their steps, the rows that follow, how they are written, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cavity.columns.dates import Writing
from cavity.persistence.errors import DataError
from cavity.persistence.typed_values import WrongValue
from cavity.tables.row_times import RowTimes, Step, row_times, step_of, times_of_index

STEPS = {
    "D": "1 day",
    "3D": "3 days",
    "h": "1 hour",
    "15min": "15 minutes",
    "W-MON": "7 days",
    "B": "1 business day",
    "MS": "1 month",
    "ME": "1 month",
    "QS": "3 months",
    "QE": "3 months",
    "YS": "1 year",
    "YE": "1 year",
}


def table(**columns):
    return pl.DataFrame(columns)


def found(cells, name="day"):
    return row_times([table(**{name: cells, "y": np.arange(len(cells))})], ["y"])


@pytest.mark.parametrize("frequency", STEPS)
def test_rows_go_on_as_those_of_pandas(frequency):
    index = pd.date_range("2023-10-31 06:00", periods=40, freq=frequency)
    instants = np.asarray(index.to_numpy(), "M8[us]")
    step = step_of(instants[:15])
    assert str(step) == STEPS[frequency]
    np.testing.assert_array_equal(step.after(instants[14], 25), instants[15:])


def test_a_day_that_months_do_not_have_is_their_last():
    instants = np.array(["2023-12-30", "2024-01-30", "2024-02-29", "2024-03-30"], "M8[us]")
    step = step_of(instants)
    assert (step.kind, step.count, step.day) == ("months", 1, 30)
    assert str(step.after(instants[-1], 11)[-1].astype("M8[D]")) == "2025-02-28"


@pytest.mark.parametrize("days", [[0], [0, 0, 1], [2, 1, 0], [0, 1, 3], [0, 1, 2, 4]])
def test_other_times_have_no_step(days):
    assert step_of(np.datetime64("2024-01-10", "us") + np.array(days, "m8[D]")) is None


WRITTEN = {
    ("2023-11-30", "2023-12-31"): ["2024-01-31", "2024-02-29"],
    ("13/12/2023", "20/12/2023"): ["27/12/2023", "03/01/2024"],
    ("2023-11", "2023-12"): ["2024-01", "2024-02"],
    ("2023Q3", "2023Q4"): ["2024Q1", "2024Q2"],
    ("2023-Q2", "2023-Q4"): ["2024-Q2", "2024-Q4"],
    ("2023-12-31 23:30", "2023-12-31 23:45"): ["2024-01-01 00:00:00", "2024-01-01 00:15:00"],
    ("2023-12-31T23:00Z", "2024-01-01T00:00Z"): [
        "2024-01-01 01:00:00+00:00",
        "2024-01-01 02:00:00+00:00",
    ],
}


@pytest.mark.parametrize("cells", WRITTEN)
def test_cells_are_written_as_those_of_the_table(cells):
    times, said = found(list(cells))
    assert said is None
    assert times.following(2).to_list() == WRITTEN[cells]
    assert times.following(2).name == "day"
    again = RowTimes.from_dict(times.to_dict(), 1)
    assert again == times


def test_years_are_numbers_in_a_column_of_that_name():
    for cells in ([1999, 2000], ["1999", "2000"]):
        assert found(cells, "Year")[0].following(2).to_list() == [2001, 2002]
        assert found(cells, "size") == (None, None)
    assert found([1.5, 2.5], "year") == (None, None)


def test_dates_that_a_file_declares_stay_dates():
    days = pl.Series([pd.Timestamp("2024-02-27"), pd.Timestamp("2024-02-28")])
    times, _ = found(days.cast(pl.Date))
    assert times.following(2).dtype == pl.Date
    assert times.following(2).cast(pl.String).to_list() == ["2024-02-29", "2024-03-01"]
    zoned = found(days.dt.replace_time_zone("UTC"))[0].following(1)
    assert zoned.dtype == pl.Datetime("us", "UTC")


def test_each_series_has_steps_of_its_own():
    daily = table(day=["2024-01-01", "2024-01-02"])
    monthly = table(day=["2024-01-01", "2024-02-01"])
    times, _ = row_times([daily, monthly], [])
    assert times.in_words == "day, to 2024-01-02, 2024-02-01, in steps of 1 day, 1 month"
    assert times.following(2).to_list() == ["2024-01-03", "2024-01-04", "2024-03-01", "2024-04-01"]


def test_unequal_steps_are_told_and_the_next_column_taken():
    uneven = ["2024-01-01", "2024-01-02", "2024-01-07"]
    times, said = found(uneven)
    assert times is None
    assert "column 'day' do not go up in equal steps" in said
    assert "the index do not" in found(uneven, "")[1]
    even = table(day=uneven, week=["2024-01-01", "2024-01-08", "2024-01-15"])
    assert row_times([even], [])[0].column == "week"
    assert found(["2024-01-01", None, "2024-01-03"])[0] is None
    assert found(["a", "b", "c"]) == (None, None)
    assert found(["01:00", "02:00"]) == (None, None)


def test_rows_of_controls_are_found_by_their_dates():
    times, _ = found(["30/12/2023", "31/12/2023"])
    ahead = table(day=["31/12/2023", "02/01/2024", "01/01/2024"])
    np.testing.assert_array_equal(times.places("u.csv", ahead, 0, 2), [2, 1])
    np.testing.assert_array_equal(times.places("u.csv", table(u=[1.0, 2.0]), 0, 2), [0, 1])
    with pytest.raises(DataError, match=r"u.csv has no row for '03/01/2024' .* to 03/01/2024"):
        times.places("u.csv", ahead, 0, 3)
    with pytest.raises(DataError, match="not a date that is written as those of the fit"):
        times.places("u.csv", table(day=["2024-01-01"]), 0, 1)
    quarters, _ = found(["2023Q3", "2023Q4"])
    with pytest.raises(DataError, match="write them like '2020Q1'"):
        quarters.places("u.csv", table(day=["2024-01-01"]), 0, 1)


@pytest.mark.parametrize("frequency", ["M", "Q", "Y", "D"])
def test_periods_and_dates_of_pandas_go_on(frequency):
    periods = pd.period_range("2020-03-01", periods=4, freq=frequency, name="when")
    times = times_of_index(periods[:3])
    assert str(times.following(1)[0]) == str(periods[3])
    assert times.name == "when"
    assert times_of_index(pd.RangeIndex(3)) is None
    uneven = pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-05"])
    assert times_of_index(uneven) is None
    hours = pd.date_range("2024-01-01", periods=3, freq="12h", tz="Europe/Berlin")
    assert times_of_index(hours).following(1)[0] == "2024-01-02 11:00:00+00:00"


def test_dates_after_the_last_year_are_missing():
    times = RowTimes(
        "day",
        Writing(),
        False,
        (np.datetime64("9999-12-31", "us"),),
        (Step("microseconds", 86_400_000_000),),
    )
    assert times.following(1).to_list() == [None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ends": ["never"]},
        {"ends": []},
        {"order": "%c"},
        {"steps": [("months", 0, 1)]},
        {"steps": [("months", 1, 32)]},
    ],
)
def test_wrong_records_are_refused(wrong):
    known = found(["2024-01-01", "2024-01-02"])[0].to_dict()
    with pytest.raises(WrongValue, match="of its rows"):
        RowTimes.from_dict({**known, **wrong}, 1)
