"""`cavity fit --model state-space`, and `cavity forecast` from such a model."""

import dataclasses

import jax
import numpy as np
import polars as pl
import pytest

from cavity.estimators.time_map import TimeMap
from cavity.persistence.errors import StorageError
from cavity.report import forecast_figures
from cavity.tables.forecasting import TableForecaster
from tests.cli.conftest import run
from tests.estimators.test_forecaster import FUTURE, PAST, ROWS, U, Y, system
from tests.models.test_state_forecasts import scalar_process
from tests.tolerances import assert_close


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with a missing cell, a model of it, and the controls that come."""
    path = tmp_path_factory.mktemp("series")
    y = [None if row == 5 else value for row, value in enumerate(Y[PAST])]
    table = pl.DataFrame({"day": np.arange(ROWS), "y": y, "push": U[PAST][:, 0]})
    table.write_csv(path / "t.csv")
    pl.DataFrame({"push": U[FUTURE][:, 0]}).write_csv(path / "u.csv")
    done = run(
        *("fit", path / "t.csv", "--out", path / "m.cavity", "--json", "--model", "state-space"),
        *("--target", "y", "--control", "push", "--inducing", 6, "--max-iterations", 8),
    )
    assert done.code == 0, done.err
    return path, done


def test_fit_and_show(folder):
    path, done = folder
    record = done.json
    assert record["task"] == "forecast"
    assert (record["states"], record["n_inducing"], record["power"]) == (2, 6, 0.0)
    assert (record["targets"], record["controls"]) == (["y"], ["push"])
    assert (record["n_rows"], record["missing"]) == (ROWS, 1)
    again = run("show", path / "m.cavity", "--json").json
    for name in ("parameters", "log_evidence", "last_state"):
        assert again[name] == record[name]
    shown = run("show", path / "m.cavity").out
    assert "forecast of y" in shown
    assert "2 states" in shown
    assert "transition.noise_variance" in shown


def test_what_forecasts_are_widened_by_is_kept(folder, tmp_path):
    """And a factor of nothing is refused."""
    path, done = folder
    assert done.json["free_simulation"] is None  # 40 rows are too few
    assert 0.0 < done.json["growth"] < 1.0
    fitted = TableForecaster.load(path / "m.cavity")
    assert fitted.time_map.widening is None
    for widening in ((1.7,), (0.0,), (1.0, 2.0)):
        maps = dataclasses.replace(fitted.time_map, widening=widening)
        dataclasses.replace(fitted, time_map=maps).save(tmp_path / "w.cavity")
        if widening == (1.7,):
            assert TableForecaster.load(tmp_path / "w.cavity").time_map.widening == widening
            continue
        with pytest.raises(StorageError, match="damaged"):
            TableForecaster.load(tmp_path / "w.cavity")


@pytest.mark.slow
def test_the_end_of_a_series_is_told_in_the_record(tmp_path):
    y, u = system(110)
    pl.DataFrame({"y": y, "push": u[:, 0]}).write_csv(tmp_path / "t.csv")
    done = run(
        *("fit", tmp_path / "t.csv", "--out", tmp_path / "m.cavity", "--json"),
        *("--model", "state-space", "--target", "y", "--control", "push"),
        *("--inducing", 6, "--max-iterations", 8),
    )
    assert done.code == 0, done.err
    told = done.json["free_simulation"]
    assert told["rows"] == 22
    assert told["better"] in ("model", "lags", "alike")
    assert "linear model of lagged outputs" in done.json["message"]
    again = TableForecaster.load(tmp_path / "m.cavity")
    assert list(again.time_map.widening) == told["widening"]
    assert again.record["free_simulation"] == told
    assert "90 % intervals held" in run("show", tmp_path / "m.cavity").out


@pytest.mark.slow
def test_factors_may_be_tied(folder):
    path, _ = folder
    done = run(
        *("fit", path / "t.csv", "--out", path / "tied.cavity", "--model", "state-space"),
        *("--target", "y", "--control", "push", "--inducing", 6, "--max-iterations", 3),
        *("--method", "tied", "--power", "0.5"),
    )
    assert done.code == 0, done.err
    assert "tied, power 0.5" in run("show", path / "tied.cavity").out
    assert run("show", path / "tied.cavity", "--json").json["method"] == "tied"


@pytest.mark.slow
def test_forecast(folder):
    path, _ = folder
    ahead = "forecast", path / "m.cavity", "--controls", path / "u.csv", "--out", path / "f.csv"
    done = run(*ahead, "--steps", 12, "--quantiles", "0.05,0.95")
    assert done.code == 0, done.err
    table = pl.read_csv(path / "f.csv")
    assert table.columns == ["step", "mean", "std", "quantile_0.05", "quantile_0.95"]
    low, mean, high = (table[n].to_numpy() for n in ("quantile_0.05", "mean", "quantile_0.95"))
    assert table["step"].to_list() == list(range(1, 13))
    assert np.all((low < mean) & (mean < high))
    # in the units of the table, and better than its mean
    y = Y[FUTURE]
    assert np.sqrt(np.mean((mean - y)[:4] ** 2)) < 0.7 * np.sqrt(
        np.mean((y - Y[PAST].mean()) ** 2)
    )


@pytest.mark.slow
def test_report(folder):
    """Of rows that came, and of controls alone."""
    path, _ = folder
    came = pl.DataFrame({"push": U[FUTURE][:, 0], "y": Y[FUTURE]})
    came.write_csv(path / "came.csv")
    report = "report", path / "m.cavity", "--json", "--out", path / "r.html"
    done = run(*report, path / "came.csv")
    assert done.code == 0, done.err
    assert done.json["figures"] == ["fan_y", "states", "transition"]
    page = (path / "r.html").read_text()
    assert "How the forecast went" in page
    assert "1 to 10" in page
    assert "1 to 12" in page
    assert run(*report, path / "u.csv").code == 0
    assert "How the forecast went" not in (path / "r.html").read_text()


@pytest.mark.slow
def test_report_knows_the_rows_of_the_fit(folder):
    """The table of the fit is described, and with rows after it these are forecast."""
    path, _ = folder
    report = "report", path / "m.cavity", "--json", "--out", path / "r.html"
    done = run(*report, path / "t.csv")
    assert done.code == 0, done.err
    assert done.json["figures"] == ["described_y", "states", "transition"]
    (warning,) = done.json["warnings"]
    assert warning == (
        "All rows of the table were trained on: they are described, not forecast, and nothing "
        "follows them"
    )
    page = (path / "r.html").read_text()
    assert "How the forecast went" not in page
    assert "How rows of the fit are described" in page
    assert warning in page
    # the last rows of the fit and those that follow
    past = pl.read_csv(path / "t.csv")[30:]
    came = pl.DataFrame({"day": np.arange(12), "y": Y[FUTURE], "push": U[FUTURE][:, 0]})
    pl.concat([past, came]).write_csv(path / "both.csv")
    came.write_csv(path / "came.csv")
    both = run(*report, path / "both.csv")
    assert both.json["figures"] == ["fan_y", "described_y", "states", "transition"]
    assert "10 rows at the beginning of the table were trained on" in both.json["warnings"][0]
    forecast = (path / "r.html").read_text()
    assert run(*report, path / "came.csv").json["warnings"] == []

    def went(page):
        return page[page.index("How the forecast went") :].split("</table>")[0]

    assert went(forecast) == went((path / "r.html").read_text())


def test_report_says_that_forecasts_may_leave_the_data(folder, monkeypatch):
    path, _ = folder
    monkeypatch.setattr(TimeMap, "growth", lambda self, steps: 25.0)
    done = run("report", path / "m.cavity", path / "u.csv", "--json", "--out", path / "r.html")
    (warning,) = done.json["warnings"]
    assert "grow away from the data, by a factor of 25 over 12 steps" in warning
    assert warning in (path / "r.html").read_text()


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Two series in one table, their rows mixed, and the controls that come to each."""
    path = tmp_path_factory.mktemp("series")
    rows = {"a": system(30, seed=1), "b": system(26, seed=2)}
    tables = [
        pl.DataFrame({"who": [name] * len(y), "t": np.arange(len(y)), "y": y, "push": u[:, 0]})
        for name, (y, u) in rows.items()
    ]
    past = pl.concat([t[:-6] for t in tables]).sort("t", maintain_order=True)
    ahead = pl.concat([t[-6:] for t in tables[::-1]])
    past.write_csv(path / "t.csv")
    ahead.write_csv(path / "u.csv")
    fit = "fit", path / "t.csv", "--out", path / "m.cavity", "--json", "--model", "state-space"
    fit = *fit, "--target", "y", "--control", "push", "--series", "who", "--inducing", 6
    done = run(*fit, "--max-iterations", 8)
    assert done.code == 0, done.err
    return path, done, tables


@pytest.mark.slow
def test_series_are_told_apart_by_a_column(several):
    path, done, tables = several
    assert (done.json["series"], done.json["series_labels"]) == ("who", ["a", "b"])
    assert done.json["n_rows"] == 44
    assert "2 by who: a, b" in run("show", path / "m.cavity").out
    ahead = "forecast", path / "m.cavity", "--steps", 5, "--out", path / "f.csv"
    done = run(*ahead, "--controls", path / "u.csv", "--quantiles", "0.05,0.95")
    assert done.code == 0, done.err
    table = pl.read_csv(path / "f.csv")
    assert table.columns == ["who", "step", "mean", "std", "quantile_0.05", "quantile_0.95"]
    assert table["who"].to_list() == ["a"] * 5 + ["b"] * 5
    assert table["step"].to_list() == [1, 2, 3, 4, 5] * 2
    # the same as the library's forecast from each series' own end
    fitted = TableForecaster.load(path / "m.cavity")
    X = np.stack([t["push"].to_numpy()[-6:, None] for t in tables])
    assert_close(
        table["mean"].to_numpy().reshape(2, 5),
        fitted.time_map.forecast(5, X).moments().mean[..., 0],
    )
    report = "report", path / "m.cavity", "--json", "--out", path / "r.html"
    done = run(*report, path / "u.csv")
    assert done.json["figures"] == ["fan_y, a", "fan_y, b", "states", "transition"]
    done = run(*report, path / "t.csv")
    assert done.json["figures"][:2] == ["described_y, a", "described_y, b"]
    assert "All rows of the table were trained on" in done.json["warnings"][0]


def test_rows_of_a_forecast_have_the_label_of_their_series(several, here):
    path, _, _ = several
    ahead = "forecast", path / "m.cavity", "--steps", 2, "--controls", path / "u.csv"
    done = run(*ahead, "--out", "f.csv")
    assert done.code == 0, done.err
    table = pl.read_csv("f.csv")
    assert table["who"].to_list() == ["a", "a", "b", "b"]
    assert table["step"].to_list() == [1, 2, 1, 2]


def test_series_that_do_not_go_together_are_said(several, here):
    path, _, tables = several
    tables[0][-6:].write_csv(path / "one.csv")
    tables[0].with_columns(who=pl.lit("c")).write_csv(path / "other.csv")
    tables[0].with_columns(who=pl.lit(None, pl.String)).write_csv(path / "none.csv")
    model = path / "m.cavity"
    ahead = "forecast", model, "--steps", 3, "--out", "f.csv", "--controls"
    fit = "fit", path / "t.csv", "--out", "n.cavity", "--target", "y"
    cases = {
        (*ahead, path / "one.csv"): "who b, ends before the forecast does: 0 rows for 3 steps",
        (*ahead, path / "other.csv"): "'c' in column 'who' is no series of the fit, which were a",
        (*ahead, path / "none.csv"): "'who' is missing in row 1",
        (*fit, "--model", "state-space", "--series", "y"): "is a target or control",
        (*fit, "--model", "state-space", "--series", "where"): "'where'",
        (*fit, "--series", "who"): "it is for time series: add --model state-space",
        (*fit, "--model", "latent", "--series", "who"): "no target",
    }
    for command, message in cases.items():
        done = run(*command)
        assert done.code != 0, command
        assert message in " ".join((done.out + done.err).split()), (command, done.err)


def test_dates_are_no_targets(here):
    days = [f"2024-03-{day:02d}" for day in range(1, 20)]
    pl.DataFrame({"day": days, "y": np.arange(19.0)}).write_csv("d.csv")
    done = run("fit", "d.csv", "--out", "d.cavity", "--model", "state-space", "--target", "day")
    assert done.code == 1
    assert "column 'day' holds dates" in done.err


def test_one_state_moves_along_a_curve():
    with jax.enable_x64(True):
        functions = scalar_process()
    picture = forecast_figures.transition(functions, 0, np.linspace(-1.0, 1.0, 9)[:, None])
    assert picture.title == "How the state moves"
    states = forecast_figures.states(np.zeros((9, 1)), np.ones((9, 1)))
    assert "two standard deviations" in states.caption


def test_what_does_not_go_together_is_said(folder, here):
    path, _ = folder
    model, out = path / "m.cavity", "f.csv"
    cases = {
        ("forecast", model, "--steps", 3, "--out", out): "needs push for every row",
        (
            *("forecast", model, "--steps", 13, "--out", out),
            *("--controls", path / "u.csv"),
        ): "ends before the forecast does: 12 rows for 13 steps",
        ("predict", model, path / "t.csv", "--out", out): "holds a time series, and",
        ("report", model, path / "u.csv", "--out", "r.html", "--colour", "push"): "no use for it",
        ("embed", model, path / "t.csv", "--out", out): "use 'cavity forecast'",
        ("fit", path / "t.csv", "--target", "y", "--out", "n.cavity", "--state", 2): "state-space",
    }
    series = ("fit", path / "t.csv", "--out", "n.cavity", "--model", "state-space")
    cases |= {
        series: "at least one column to forecast",
        (*series, "--target", "y", "--control", "y"): "named twice",
        (*series, "--target", "y", "--method", "mcmc"): "is learned by power_ep or tied",
        (*series, "--target", "y", "--ignore", "day"): "left out anyway",
        (*series, "--target", "z"): "'z'",
    }
    for command, message in cases.items():
        done = run(*command)
        assert done.code != 0, command
        assert message in " ".join((done.out + done.err).split()), (command, done.err)
