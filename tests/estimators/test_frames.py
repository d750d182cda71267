"""Dates in data frames and arrays: the same days, whatever unit they are kept in."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cavity import GPRegressor
from cavity.estimators.frames import dates_as_days
from cavity.persistence.errors import DataError

DAYS = [18_262.0, 18_262.5, 18_300.25]  # since 1970-01-01, counted by hand for 2020-01-01
MOMENTS = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 2, 8, 6)]
X = [1, 2, 3]

FRAMES = {
    "pandas": pd.DataFrame({"x": X, "when": MOMENTS}),
    "pandas nanoseconds": pd.DataFrame({"x": X, "when": np.array(MOMENTS, "datetime64[ns]")}),
    "pandas zone": pd.DataFrame(
        {"x": X, "when": pd.Series(MOMENTS).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")}
    ),
    "polars": pl.DataFrame({"x": X, "when": MOMENTS}),
    "polars zone": pl.DataFrame(
        {"x": X, "when": pl.Series(MOMENTS).dt.replace_time_zone("UTC")}
    ).with_columns(pl.col("when").dt.convert_time_zone("Asia/Tokyo")),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_dates_of_a_frame_are_days(frame):
    converted = dates_as_days(frame)
    assert list(converted.columns) == ["x", "when"]
    np.testing.assert_array_equal(np.asarray(converted), np.column_stack([X, DAYS]))


DATES = [dt.date(2020, 1, 1), None, dt.date(2020, 2, 8)]
TIMES = [dt.time(10, 30), None, dt.time(0, 0, 0, 500_000)]
OBJECTS = {
    "pandas": pd.DataFrame({"x": X, "day": DATES, "time": TIMES}),
    "pandas NaT": pd.DataFrame({"x": X, "day": [DATES[0], pd.NaT, DATES[2]], "time": TIMES}),
    "polars": pl.DataFrame({"x": X, "day": DATES, "time": TIMES}),
}


@pytest.mark.parametrize("frame", OBJECTS.values(), ids=OBJECTS)
def test_single_dates_are_days_and_times_of_day_hours(frame):
    """Objects of Python in pandas, which has no types for them; missing ones are NaN."""
    converted = np.asarray(dates_as_days(frame), dtype=float)
    expected = [[1, 18_262, 10.5], [2, np.nan, np.nan], [3, 18_300, 0.5 / 3600]]
    np.testing.assert_allclose(converted, expected, rtol=1e-14)


def test_objects_with_a_zone_are_universal_time():
    tokyo = dt.timezone(dt.timedelta(hours=9))
    moments = [m.replace(tzinfo=dt.UTC).astimezone(tokyo) for m in MOMENTS]
    frame = pd.DataFrame({"when": pd.Series(moments, dtype=object)})
    np.testing.assert_array_equal(dates_as_days(frame)["when"], DAYS)


@pytest.mark.parametrize("cells", [[DATES[0], "soon"], [TIMES[0], DATES[0]], [1.0, DATES[0]]])
def test_dates_among_other_objects_are_refused_by_name(cells):
    frame = pd.DataFrame({"x": [1, 2], "when": pd.Series(cells, dtype=object)})
    with pytest.raises(DataError, match=r"'when' holds dates.*pd\.to_datetime"):
        dates_as_days(frame)


def test_other_objects_pass():
    frame = pd.DataFrame({"x": pd.Series([1, None, 2.5], dtype=object), "c": ["a", "b", "c"]})
    assert dates_as_days(frame) is frame
    array = frame.to_numpy(dtype=object)
    assert dates_as_days(array) is array


@pytest.mark.parametrize("missing", [None, np.nan, pd.NaT, np.datetime64("NaT")])
def test_dates_in_arrays_of_objects_are_those_of_frames(missing):
    days = [DATES[0], missing, np.datetime64("2020-02-08")]
    array = np.array([X, days, TIMES], dtype=object).T
    before = array.copy()
    expected = [[1, 18_262, 10.5], [2, np.nan, np.nan], [3, 18_300, 0.5 / 3600]]
    converted = dates_as_days(array)
    np.testing.assert_allclose(converted.astype(float), expected, rtol=1e-14)
    np.testing.assert_array_equal(dates_as_days(np.array(MOMENTS, dtype=object)), DAYS)
    assert array[0, 1] is before[0, 1]  # the caller's array stays as it was
    with pytest.raises(DataError, match="column '1' holds dates or times among other objects"):
        dates_as_days(np.array([[1.0, DATES[0]], [2.0, "soon"]], dtype=object))


def test_dates_of_arrays_and_durations():
    moments = np.array(MOMENTS, "datetime64[s]")[:, None]
    np.testing.assert_array_equal(dates_as_days(moments)[:, 0], DAYS)
    np.testing.assert_array_equal(dates_as_days(moments - moments[:1])[:, 0], [0, 0.5, 38.25])
    missing = np.array(["NaT", "2020-01-01"], "datetime64[D]")
    np.testing.assert_array_equal(dates_as_days(missing), [np.nan, DAYS[0]])
    numbers = np.ones((2, 1))
    assert dates_as_days(numbers) is numbers
    assert dates_as_days([[1.0]]) == [[1.0]]


def test_units_of_a_frame_make_no_difference():
    """Fitted to nanoseconds, asked in seconds and in days."""
    y = np.array([0.0, 1.0, 0.5])
    fitted = GPRegressor(max_iterations=0).fit(FRAMES["pandas nanoseconds"], y)
    expected = fitted.predict(FRAMES["polars"])
    seconds = FRAMES["pandas"].astype({"when": "datetime64[s]"})
    np.testing.assert_array_equal(fitted.predict(seconds), expected)
    objects = GPRegressor(max_iterations=0).fit(np.array([X, MOMENTS], dtype=object).T, y)
    np.testing.assert_array_equal(objects.predict(seconds.to_numpy()), expected)
    assert fitted.kernel_.lengthscale[1] < 1e4
