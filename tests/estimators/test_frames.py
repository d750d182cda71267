"""Dates in data frames and arrays: the same days, whatever unit they are kept in."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cavity import GPRegressor
from cavity.estimators.frames import dates_as_days

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
    assert fitted.kernel_.lengthscale[1] < 1e4
