"""`cavity fit --model state-space`, and `cavity forecast` from such a model."""

import jax
import numpy as np
import polars as pl
import pytest

from cavity.report import forecast_figures
from tests.cli.conftest import run
from tests.estimators.test_forecaster import FUTURE, PAST, ROWS, U, Y
from tests.models.test_state_forecasts import scalar_process


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
        ("predict", model, path / "t.csv", "--out", out): "goes on from its last row",
        ("report", model, path / "u.csv", "--out", "r.html", "--colour", "push"): "no use for it",
        ("embed", model, path / "t.csv", "--out", out): "forecast of y",
        ("fit", path / "t.csv", "--target", "y", "--out", "n.cavity", "--state", 2): "state-space",
    }
    series = ("fit", path / "t.csv", "--out", "n.cavity", "--model", "state-space")
    cases |= {
        series: "at least one column to forecast",
        (*series, "--target", "y", "--control", "y"): "named twice",
        (*series, "--target", "y", "--method", "mcmc"): "one method",
        (*series, "--target", "y", "--ignore", "day"): "left out anyway",
        (*series, "--target", "z"): "'z'",
    }
    for command, message in cases.items():
        done = run(*command)
        assert done.code != 0, command
        assert message in " ".join((done.out + done.err).split()), (command, done.err)
