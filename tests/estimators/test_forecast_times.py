"""Times of a series: what follows what, with and without an index of pandas."""

import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity.estimators.kept_times import rows_from, rows_record
from cavity.estimators.time_tables import TimeData, time_data
from cavity.estimators.times import (
    check_times,
    following,
    joined,
    numbered_from_zero,
    rows_that_follow,
    times_of,
)
from cavity.persistence.errors import StorageError
from tests.cli.conftest import run
from tests.estimators.test_forecaster import FUTURE, PAST, ROWS, SMALL, U, Y

DAYS = pd.date_range("2024-01-01", periods=ROWS + 12, freq="D")


def table(index):
    return times_of(pd.Series(np.arange(len(index)), index=index))


@pytest.fixture(scope="module")
def dated():
    """A fit of rows with times and a control."""
    y = pd.Series(Y[PAST], index=DAYS[PAST])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecaster = cavity.GPForecaster(**{**SMALL, "max_iterations": 0})
        return forecaster.fit(y, pd.DataFrame({"u": U[PAST][:, 0]}, index=DAYS[PAST]))


def test_controls_are_those_of_the_times_that_follow(dated):
    """A table with earlier and later rows gives the same as its rows that follow; others are
    refused, and so are other kinds of times."""
    every = pd.DataFrame({"u": U[:, 0]}, index=DAYS)
    expected = dated.predict([1, 5], U[FUTURE])
    for X in (every, every[FUTURE], every[FUTURE].reset_index(drop=True)):
        np.testing.assert_array_equal(dated.predict([1, 5], X), expected)
    shifted = every[FUTURE].set_axis(DAYS[FUTURE] + pd.Timedelta("1D"))
    with pytest.raises(ValueError, match=r"no row for 2024-02-10.* fit ends at 2024-02-09"):
        dated.predict([1, 5], shifted)
    with pytest.raises(ValueError, match="X has no row for 2024-02-10"):
        dated.predict([1, 5], every[PAST])
    with pytest.raises(ValueError, match="holds periods, that of the fit dates"):
        dated.predict(1, every[FUTURE].to_period())
    with pytest.raises(ValueError, match="holds numbers, that of the fit dates"):
        dated.predict(1, every[FUTURE].set_axis(np.arange(40, 52)))


def test_new_rows_are_at_the_times_that_follow(dated):
    later = pd.Series(Y[FUTURE][:3], index=DAYS[FUTURE][1:4])
    for method in (dated.update, dated.log_predictive_density):
        with pytest.raises(ValueError, match="y has no row for 2024-02-10"):
            method(later, U[FUTURE][:3])
    copy = pickle.loads(pickle.dumps(dated))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for y in (later.set_axis(DAYS[FUTURE][:3]), later.reset_index(drop=True)):
            copy.update(y, U[FUTURE][:3], update_params=False)
    assert copy.n_rows_ == ROWS + 6
    assert copy._data.index.equals(DAYS[: ROWS + 6])


KINDS = [
    pd.date_range("2024-01-31", periods=9, freq="ME"),
    pd.date_range("2024-01-01", periods=9, freq="B"),
    pd.date_range("2024-01-01", periods=9, freq="36h", tz="Europe/Paris"),
    pd.period_range("2024-01", periods=9, freq="M"),
    pd.timedelta_range("1h", periods=9, freq="15min"),
    pd.RangeIndex(9),
    pd.Index(np.arange(9) * 3 + 1980),
    pd.Index(0.1 * np.arange(9)),
]
HOLIDAYS = pd.offsets.CustomBusinessDay(holidays=["2024-01-04", "2024-01-09"])


def test_files_refuse_times_of_a_calendar_of_its_own():
    index = pd.date_range("2024-01-01", periods=9, freq=HOLIDAYS)
    data = time_data(pd.Series(np.arange(9.0), index=index), None)
    with pytest.raises(StorageError, match=r"CustomBusinessDay.*pickle it"):
        rows_record(data)


def test_times_that_follow():
    """Every kind of index, against the longer one that it is the beginning of."""
    for index in (*KINDS, pd.date_range("2024-01-01", periods=9, freq=HOLIDAYS)):
        for known in (2, 5):
            before, expected = index[:known], index[known:]
            found = following(before, len(expected))
            if index.dtype == float:
                np.testing.assert_allclose(found, expected)
            else:
                assert found.equals(expected)
            if index.dtype != float:
                assert joined(before, None, len(expected)).equals(index)
            if not numbered_from_zero(index):
                rows = rows_that_follow("X", index, before, len(expected))
                np.testing.assert_array_equal(rows, np.arange(known, 9))


@pytest.mark.parametrize("index", KINDS, ids=lambda index: str(index.dtype))
def test_times_come_back_from_files(index):
    data = TimeData(np.zeros((9, 1)), np.zeros((9, 0)), True, index)
    found = rows_from(rows_record(data)).index
    assert type(found) is type(index)
    assert found.equals(index)
    assert found.dtype == index.dtype


def test_business_days_leave_weekends_out_and_name_holidays():
    days = pd.date_range("2024-12-16", periods=12, freq="B")
    check_times("y", days)
    holiday = days.drop(pd.Timestamp("2024-12-25"))
    with pytest.raises(ValueError, match=r'between 2024-12-24.*2024-12-26.*asfreq\("B"\)'):
        check_times("y", holiday)
    before = days[:7]
    assert before[-1] == pd.Timestamp("2024-12-24")
    with pytest.raises(ValueError, match="no row for 2024-12-25"):
        rows_that_follow("y", holiday[7:], before, 4)
    assert joined(before, days[7:], 5).equals(days)
    assert joined(before, None, 5).freq == days.freq


def test_text_is_dates_or_names():
    """Names have the order of their rows, and new ones must be new."""
    names = [f"t{i}" for i in range(30)]
    check_times("y", table(names))
    check_times("y", table(names[::-1]))
    rows = rows_that_follow("y", table(["t30", "t31"]), table(names), 2)
    np.testing.assert_array_equal(rows, [0, 1])
    with pytest.raises(ValueError, match="row t29 of y is one of the fit, which ends at t29"):
        rows_that_follow("y", table(["t29", "t30"]), table(names), 2)
    with pytest.raises(ValueError, match="one row for each"):
        check_times("y", table(["a", "b", "a"]))
    texts = [str(day.date()) for day in DAYS[:9]]
    dates = [datetime.date.fromisoformat(text) for text in texts]
    for index in (texts, dates):
        assert table(index).equals(DAYS[:9])
    with pytest.raises(ValueError, match="sorted by time"):
        check_times("y", table(texts[::-1]))
    with pytest.raises(ValueError, match="no rows between 2024-01-03"):
        check_times("y", table([*texts[:3], *texts[5:]]))


def test_rows_that_pandas_numbers_from_zero_have_no_times():
    fitted = pd.RangeIndex(40)
    for fresh in (pd.RangeIndex(5), pd.RangeIndex(40, 45)):
        np.testing.assert_array_equal(rows_that_follow("y", fresh, fitted, 5), np.arange(5))
        assert joined(fitted, fresh, 5).equals(pd.RangeIndex(45))
    with pytest.raises(ValueError, match=r"no row for 40: the fit ends at 39.*given 45 to 49"):
        rows_that_follow("y", pd.RangeIndex(45, 50), fitted, 5)
    # dates beside rows without times
    np.testing.assert_array_equal(rows_that_follow("X", DAYS[:5], fitted, 5), np.arange(5))
    frame = pd.DataFrame({"u": U[PAST][:, 0]}, index=DAYS[PAST])
    assert time_data(pd.Series(Y[PAST]), frame).index.equals(DAYS[PAST])


def test_dates_are_no_outputs():
    days = DAYS[:9]
    outputs = {
        "in column 'when'": pd.DataFrame({"y": np.arange(9.0), "when": days}),
        "in column 'since'": pd.DataFrame({"since": days - days[0]}),
        "y holds dates": pd.Series(days),
        "holds dates, times": days.to_numpy(),
        "dates, times or durations, and": list(days.date),
    }
    for match, y in outputs.items():
        with pytest.raises(ValueError, match=match):
            cavity.GPForecaster().fit(y)
    levels = pd.Series(np.arange(4.0), index=pd.MultiIndex.from_product([["a", "b"], [1, 2]]))
    with pytest.raises(ValueError, match="index of several levels"):
        cavity.GPForecaster().fit(levels)


def test_forecasts_have_the_times_that_follow(dated, tmp_path, monkeypatch):
    """In Python, and in what the command line writes of the same model."""
    assert dated.times([1, 5]).equals(DAYS[FUTURE][[0, 4]])
    monkeypatch.chdir(tmp_path)
    dated.save("m.cavity")
    pd.DataFrame({"u": U[FUTURE][:, 0]}).to_csv("u.csv")
    done = run("forecast", "m.cavity", "--steps", 3, "--controls", "u.csv", "--out", "f.csv")
    assert done.code == 0, done.err
    written = pd.read_csv("f.csv")
    assert list(written.columns) == ["step", "time", "mean", "std"]
    assert list(written["time"]) == ["2024-02-10", "2024-02-11", "2024-02-12"]
    assert cavity.load("m.cavity").times(2)[0] == DAYS[FUTURE][1]
