"""The commands with noise that is not Gaussian, and with counts."""

import numpy as np
import polars as pl
import pytest

from cavity.tables.table_model import TableModel
from tests.cli.conftest import people, run
from tests.cli.test_bad_input import error
from tests.cli.test_fit import KEYS, METRICS

ROBUST = pytest.mark.parametrize(
    "likelihood", ["laplace", pytest.param("student_t", marks=pytest.mark.slow)]
)


def fit(table, *options, target="weight"):
    common = ("--target", target, "--out", "m.cavity", "--max-iterations", 2, "--json")
    return run("fit", table, *common, *options)


@pytest.mark.slow
@ROBUST
def test_from_a_table_to_predictions(here, likelihood):
    table = (
        people()
        .select("height", "weight")
        .with_columns(weight=pl.when(pl.int_range(pl.len()) == 3).then(110.0).otherwise("weight"))
    )
    table.write_csv("t.csv")
    done = fit("t.csv", "--likelihood", likelihood)
    assert done.code == 0
    assert sorted(done.json) == sorted(KEYS)
    assert done.json["likelihood"] == likelihood
    assert done.json["sites"]["sweeps"] > 0
    assert done.json["parameters"]["likelihood.scale"] > 0
    assert f"{likelihood} likelihood, full GP, power 0.5" in run("show", "m.cavity").out
    found = run("evaluate", "m.cavity", "t.csv", "--json").json["metrics"]
    assert sorted(found) == sorted(METRICS)
    assert all(np.isfinite(value) for value in found.values())
    options = ("--quantiles", "0.05,0.95", "--density", "--json")
    done = run("predict", "m.cavity", "t.csv", "--out", "p.csv", *options)
    names = ["mean", "std", "quantile_0.05", "quantile_0.95", "log_density"]
    assert done.json["columns"] == names
    written = pl.read_csv("p.csv")
    assert found["nlpd"] == pytest.approx(-written["log_density"].mean())
    inside = (table["weight"] >= written["quantile_0.05"]) & (
        table["weight"] <= written["quantile_0.95"]
    )
    assert found["coverage_90"] == pytest.approx(inside.mean())
    assert not inside[3]


@pytest.mark.slow
def test_infinite_deviations_are_no_failure(here, tables):
    """Student-t with few degrees of freedom: inf in the file, and finite quantiles."""
    assert fit(tables / "train.csv", "--likelihood", "student_t", "--ignore", "colour").code == 0
    fitted = TableModel.load("m.cavity")
    fitted.posterior.model.likelihood.df[...] = 1.5
    fitted.save("m.cavity")
    done = run(
        *("predict", "m.cavity", tables / "test.csv", "--out", "p.csv", "--json"),
        *("--quantiles", "0.05,0.95"),
    )
    assert done.code == 0
    written = pl.read_csv("p.csv")
    assert written["std"].is_infinite().all()
    assert written["mean"].is_finite().all()
    assert written["quantile_0.95"].is_finite().all()
    assert run("evaluate", "m.cavity", tables / "test.csv", "--json").code == 0


@pytest.fixture
def visits(here):
    """A table of counts with exposures."""
    table = people(30)
    days = np.random.default_rng(0).uniform(1.0, 30.0, 30)
    rate = np.exp(2.0 * (table["height"].to_numpy() - 1.8))
    visits = np.random.default_rng(1).poisson(days * rate)
    table = table.select("height", days=pl.Series(days), visits=pl.Series(visits))
    table.write_csv("t.csv")
    return table


COUNTS = ("--likelihood", "poisson", "--exposure-column", "days")


@pytest.mark.slow
def test_counts_and_their_exposures(visits):
    done = fit("t.csv", *COUNTS, target="visits")
    assert done.code == 0, done.err
    assert done.json["inputs"] == ["height"]
    assert run("predict", "m.cavity", "t.csv", "--out", "p.csv", "--quantiles", 0.5).code == 0
    written = pl.read_csv("p.csv")
    ratio = written["mean"].to_numpy() / visits["days"].to_numpy()
    assert np.ptp(ratio) < np.mean(ratio)
    assert np.all(written["quantile_0.5"].to_numpy() % 1.0 == 0.0)
    assert sorted(run("evaluate", "m.cavity", "t.csv", "--json").json["metrics"]) == sorted(
        METRICS
    )
    assert run("report", "m.cavity", "t.csv", "--out", "r.html").code == 0
    visits.drop("days").write_csv("none.csv")
    done = run("predict", "m.cavity", "none.csv", "--out", "p.csv", "--json")
    assert "no column 'days'" in error(done, "data")


@pytest.mark.parametrize(("cell", "shown"), [(-1.0, "-1"), (2.5, "2.5")])
def test_counts_that_are_none(visits, cell, shown):
    fit("t.csv", *COUNTS, target="visits")
    wrong = visits.with_columns(
        visits=pl.when(pl.int_range(pl.len()) == 4).then(cell).otherwise("visits")
    )
    wrong.write_csv("wrong.csv")
    for done in (
        fit("wrong.csv", *COUNTS, target="visits"),
        run("evaluate", "m.cavity", "wrong.csv", "--json"),
        run("predict", "m.cavity", "wrong.csv", "--out", "p.csv", "--density", "--json"),
    ):
        message = error(done, "data")
        assert (
            f"column 'visits', row 5: {shown} is not among what the likelihood Poisson" in message
        )
        assert "counts 0, 1, 2" in message


@pytest.mark.slow
def test_numbers_above_zero(here):
    people(30).select("height", "weight").write_csv("t.csv")
    done = fit("t.csv", "--likelihood", "gamma")
    assert done.code == 0, done.err
    assert done.json["likelihood"] == "gamma"
    assert done.json["parameters"]["likelihood.shape"] > 0
    found = run("evaluate", "m.cavity", "t.csv", "--json").json["metrics"]
    assert sorted(found) == sorted(METRICS)
    assert all(np.isfinite(value) for value in found.values())
    done = fit("t.csv", "--likelihood", "gamma", "--exposure-column", "height")
    assert done.code == 2
    assert "exposures are for counts (negative_binomial, poisson), not gamma" in done.err


def test_exposures_are_positive(visits):
    visits.with_columns(days=pl.lit(0.0)).write_csv("t.csv")
    assert "row 1: 0 is not positive" in error(fit("t.csv", *COUNTS, target="visits"), "data")
