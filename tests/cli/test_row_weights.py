"""Weights of rows and classes on the command line."""

import numpy as np
import polars as pl
import pytest

import cavity
from cavity.learning.metrics.classification import classification_metrics
from cavity.learning.metrics.regression import regression_metrics
from tests.cli.conftest import people, run

WEIGHTS = np.array([1.0, 2.0, 0.0, 3.0, 1.0] * 6)
FIT = "fit people.csv --target weight --ignore spare --ignore noise --ignore colour"


@pytest.fixture
def table(here):
    """A table with a column of weights, and one of labels."""
    found = people().with_columns(
        pl.Series("count", WEIGHTS),
        pl.Series("label", np.array(["old", "new"])[(WEIGHTS > 1) * 1]),
    )
    found.write_csv("people.csv")
    return found


def done(command):
    """What a command printed that is to succeed."""
    ran = run(command)
    assert ran.code == 0, ran.err
    return ran


def test_a_weighted_fit_and_its_scores(table):
    fit = f"{FIT} --ignore label --weight-column count --max-iterations 1 --out m.cavity"
    ran = done(f"{fit} --json").json
    assert ran["n_rows"] == 24
    assert ran["weights"] == {"column": "count"}
    estimator = cavity.load("m.cavity")
    assert estimator.n_observed_ == WEIGHTS.sum()
    assert "weights       column count" in done("show m.cavity").out
    weighted = done("evaluate m.cavity people.csv --weight-column count --json").json["metrics"]
    copies = table[np.repeat(np.arange(30), WEIGHTS.astype(int)).tolist()]
    copies.write_csv("copies.csv")
    copied = done("evaluate m.cavity copies.csv --json").json["metrics"]
    assert weighted == pytest.approx(copied)
    assert done("evaluate m.cavity people.csv --json").json["metrics"]["rmse"] != weighted["rmse"]


def test_weights_of_classes(table):
    fit = "fit people.csv --target label --ignore count --ignore colour --max-iterations 1"
    done(f"{fit} --class-weight new=2 --class-weight old=0.5 --out a.cavity")
    doubled = table.with_columns(
        pl.when(pl.col("label") == "new").then(2.0).otherwise(0.5).alias("count")
    )
    doubled.write_csv("people.csv")
    again = fit.replace("--ignore count", "--weight-column count")
    done(f"{again} --out b.cavity")
    done("predict a.cavity people.csv --out a.csv")
    done("predict b.cavity people.csv --out b.csv")
    assert pl.read_csv("a.csv").equals(pl.read_csv("b.csv"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--weight-column cuont", "no column 'cuont' (did you mean 'count'?)"),
        ("--weight-column count --ignore count", "one role"),
        ("--weight-column label --ignore count", "label"),
        ("--class-weight new=2", "--class-weight is for classes"),
        ("--class-weight new", "not a name and a value"),
        ("--class-weight new=0", "weights are above 0"),
        ("--class-weight balanced --class-weight new=2", "stands alone"),
        ("--model state-space --weight-column count", "times have no weights"),
    ],
)
def test_impossible_weights_are_refused(table, options, said):
    ran = run(f"{FIT} {options} --out m.cavity")
    assert ran.code
    assert said in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("weight", "said"),
    [("-1", "row 4: -1 is negative"), ("", "row 4"), ("inf", "row 4")],
    ids=["negative", "missing", "infinite"],
)
def test_a_weight_that_is_none_names_its_row(here, weight, said):
    count = ["1.0"] * 30
    count[3] = weight
    people().with_columns(pl.Series("count", count)).write_csv("people.csv")
    ran = run(f"{FIT} --weight-column count --out m.cavity")
    assert ran.code == 1
    assert said in ran.err


def test_a_negative_weight_far_down_a_long_table_names_its_row(here):
    count = np.ones(30)
    count[17] = -2.0
    people().with_columns(pl.Series("count", count)).write_csv("people.csv")
    ran = run(f"{FIT} --weight-column count --batch-rows 7 --inducing 5 --out m.cavity")
    assert ran.code == 1
    assert "row 18: -2 is negative" in ran.err


def test_all_weights_zero_are_refused(here):
    people().with_columns(pl.lit(0.0).alias("count")).write_csv("people.csv")
    ran = run(f"{FIT} --weight-column count --out m.cavity")
    assert ran.code == 1
    assert "every row has weight 0" in ran.err


def test_rows_of_weight_zero_may_hold_anything(here):
    """Text in a column of numbers, missing cells, other classes: a fit, a test and an update."""
    count = np.array([1.0, 0.0, 2.0] * 10)
    spare = np.where(count == 0.0, "oops", people()["spare"].cast(str))
    table = people().with_columns(pl.Series("count", count), pl.Series("spare", spare))
    gone = pl.when(pl.col("count") == 0.0).then(None)
    table = table.with_columns(gone.otherwise(pl.col("height")).alias("height"))
    table.write_csv("people.csv")
    table.filter(pl.col("count") > 0.0).write_csv("fewer.csv")
    fit = "--target weight --ignore noise --weight-column count --max-iterations 1 --inducing 5"
    for name in ("people", "fewer"):
        done(f"fit {name}.csv {fit} --test {name}.csv --out {name}.cavity")
    both = [cavity.load(f"{name}.cavity") for name in ("people", "fewer")]
    assert both[0].log_evidence_ == both[1].log_evidence_
    done(f"fit people.csv {fit} --batch-rows 7 --out parts.cavity")
    done("update people.cavity people.csv --weight-column count --no-learn --out n.cavity")


def test_long_tables_have_weights_too(table):
    fit = f"{FIT} --ignore label --weight-column count --inducing 8 --max-iterations 1"
    done(f"{fit} --out whole.cavity")
    done(f"{fit} --batch-rows 7 --out parts.cavity")
    whole, parts = (cavity.load(f"{name}.cavity") for name in ("whole", "parts"))
    assert parts.n_observed_ == whole.n_observed_
    np.testing.assert_allclose(parts.log_evidence_, whole.log_evidence_, rtol=1e-9)


def test_an_update_takes_weights(table):
    fit = f"{FIT} --ignore label --weight-column count --inducing 8 --max-iterations 1"
    done(f"{fit} --out m.cavity")
    done("update m.cavity people.csv --weight-column count --no-learn --out n.cavity")
    assert cavity.load("n.cavity").n_observed_ == 2.0 * WEIGHTS.sum()


def test_metrics_of_weights_are_those_of_copies():
    random = np.random.default_rng(0)
    y, mean = random.normal(size=(2, 30))
    std, density = random.uniform(0.5, 1.0, 30), random.normal(size=30)
    copies = np.repeat(np.arange(30), WEIGHTS.astype(int))
    found = regression_metrics(y, mean, std, density, 0.1, 2.0, weights=WEIGHTS)
    arrays = (each[copies] for each in (y, mean, std, density))
    assert found == pytest.approx(regression_metrics(*arrays, 0.1, 2.0))
    p = random.dirichlet([1.0, 1.0], 30)
    labels = random.integers(0, 2, 30)
    found = classification_metrics(labels, np.log(p), WEIGHTS)
    copied = classification_metrics(labels[copies], np.log(p[copies]))
    assert found == pytest.approx(copied)
