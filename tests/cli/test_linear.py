"""`cavity fit --model linear`, uses of such a model, and `cavity coefficients`."""

from typing import Any

import jax
import numpy as np
import polars as pl
import pytest

import cavity
from cavity.tables.schema import encode
from cavity.tables.table_model import TableModel
from tests.cli.conftest import people, run

IGNORED = ("--ignore", "spare", "--ignore", "noise")


@pytest.fixture(scope="module")
def linear(tables):
    """A linear model of one target with three kinds of inputs, and what the fit said."""
    path = tables / "linear.cavity"
    fit = ("fit", tables / "train.csv", "--model", "linear", "--target", "weight", *IGNORED)
    done = run(*fit, "--out", path, "--test", tables / "test.csv", "--json")
    assert done.code == 0, done.err
    return path, done.json


def test_a_fit_is_that_of_the_estimator_with_a_group_for_each_category(linear, tables):
    path, record = linear
    fitted = TableModel.load(path)
    encoded = encode(people(), fitted.schema)
    assert encoded.y is not None
    own: Any = cavity.LinearRegressor(groups=[0, 0, 1, 1, 1]).fit(encoded.X, encoded.y[:, 0])
    np.testing.assert_allclose(record["log_evidence"], own.log_evidence_, rtol=1e-9)
    np.testing.assert_allclose(record["parameters"]["prior.share"], own.prior_.share)
    assert "groups" not in record["parameters"]
    assert record["prior"] == "spike_slab"
    assert record["power"] == 1.0
    assert record["selected"] == ["height", "smoker"]
    assert "selection_message" not in record
    assert record["test"]["rmse"] < 1.5
    shown = run("show", path)
    assert "linear, gaussian noise, spike_slab prior" in shown.out
    assert "2 of 5 coefficients at a false discovery rate of 0.1: height, smoker" in shown.out


def test_a_saved_model_predicts_and_is_judged(linear, tables, here):
    path, record = linear
    judged = run("evaluate", path, tables / "test.csv", "--json").json
    np.testing.assert_allclose(judged["metrics"]["rmse"], record["test"]["rmse"])
    run("predict", path, tables / "test.csv", "--out", "p.csv", "--quantiles", "0.1,0.9")
    found, truth = pl.read_csv("p.csv"), people(12, seed=4)["weight"]
    rmse = float(np.sqrt(np.mean((found["mean"] - truth).to_numpy() ** 2)))
    np.testing.assert_allclose(rmse, record["test"]["rmse"])
    assert (found["quantile_0.1"] < found["quantile_0.9"]).all()


def test_coefficients_are_those_of_the_posterior(linear, here):
    path, _ = linear
    record = run("coefficients", path, "--out", "c.csv", "--fdr", 0.01, "--json").json
    assert record["prior"] == "spike_slab"
    assert "likelihood.variance" in record["averaged_over"]
    assert record["converged"] is True
    assert record["message"].startswith("averaged over ")
    written = pl.read_csv("c.csv")
    fitted = TableModel.load(path)
    assert written["column"].to_list() == list(fitted.schema.features)
    with jax.enable_x64(True):
        found = cavity.diagnostics.coefficients(fitted.posterior)
    for name in ("mean", "lower", "upper"):
        np.testing.assert_allclose(written[name], getattr(found, name))
    assert found.inclusion is not None
    np.testing.assert_allclose(written["inclusion_probability"], found.inclusion)
    certain = np.maximum(found.negative, found.positive)
    np.testing.assert_allclose(written["sign_probability"], certain)
    assert np.flatnonzero(written["selected"]).tolist() == sorted(found.select(0.01))
    assert record["selected"] == ["height", "smoker"]
    assert record["fdr"] == 0.01
    assert abs(written["mean"][0] - 100.0) < 5.0


@pytest.mark.slow
def test_classes_and_targets_have_coefficients_each(tables, here):
    fit = ("fit", tables / "train.csv", "--model", "linear", "--max-iterations", 1)
    three = (*fit, *IGNORED, "--target", "colour", "--prior", "gaussian", "--out", "k.cavity")
    assert run(*three, "--json").json["coupled"] is False
    run("coefficients", "k.cavity", "--out", "k.csv")
    written = pl.read_csv("k.csv")
    assert written["class"].to_list() == ["blue"] * 3 + ["green"] * 3 + ["red"] * 3
    assert written["column"].to_list() == ["height", "smoker", "weight"] * 3
    assert "inclusion_probability" not in written.columns
    two = ("--target", "weight", "--target", "spare", "--ignore", "noise", "--prior", "ard")
    assert run(*fit, *two, "--out", "t.cavity").code == 0
    record = run("coefficients", "t.cavity", "--out", "t.parquet", "--json").json
    written = pl.read_parquet("t.parquet")
    assert written["target"].to_list() == ["weight"] * 5 + ["spare"] * 5
    assert set(record["selected"]) == {"weight", "spare"}
    # in the units of each target
    heights = written.filter(pl.col("column") == "height")["mean"]
    assert heights[0] > 1e3 * abs(heights[1])


@pytest.mark.slow
def test_categories_as_blocks(tables, here):
    ignored = [x for name in ("noise", "spare", "smoker") for x in ("--ignore", name)]
    fit = ("fit", tables / "train.csv", "--model", "linear", "--max-iterations", 1, *ignored)
    assert run(*fit, "--target", "weight", "--blocks", "--out", "b.cavity").code == 0
    fitted = TableModel.load("b.cavity")
    colours = [i for i, name in enumerate(fitted.schema.features) if "colour=" in name]
    assert fitted.posterior.model.blocks == (tuple(colours),)
    run("coefficients", "b.cavity", "--out", "b.csv")
    shares = pl.read_csv("b.csv")["inclusion_probability"]
    np.testing.assert_allclose(shares[colours[0]], shares[colours])
    assert run("report", "b.cavity", tables / "train.csv", "--out", "b.html").code == 0


def test_what_fit_refuses(tables, here):
    fit = ("fit", tables / "train.csv", "--target", "weight", "--out", "n.cavity")
    linear = (*fit, "--model", "linear")

    def why(*options):
        done = run(*options)
        assert done.code == 2
        return done.err

    assert "spike_slab" in why(*linear, "--prior", "lasso")
    assert "scale mixture" in why(*linear, "--prior", "laplace", "--blocks")
    assert "of which there are none" in why(*linear, "--ignore", "colour", "--blocks")
    assert "add --model linear" in why(*fit, "--blocks")
    assert "add --model linear" in why(*fit, "--prior", "laplace")
    assert "no kernel" in why(*linear, "--kernel", "linear")
    assert "no inducing points" in why(*linear, "--inducing", 5)
    assert "one method" in why(*linear, "--method", "laplace")
    assert "all rows in memory" in why(*linear, "--batch-rows", 5)
    assert "several starts" in why(*linear, "--restarts", 2)
    assert "intercept" in why(*linear, "--mean", "linear")
    assert "auto" in why(*linear, "--power", "auto")
    assert "several functions" in why(*linear, "--likelihood", "heteroscedastic")


def test_what_coefficients_refuses(linear, model, here):
    path, _ = linear
    other = run("coefficients", model, "--out", "c.csv")
    assert other.code == 1
    assert "cavity fit --model linear" in other.err
    for rate in (0.0, 1.0, 1.5):
        done = run("coefficients", path, "--out", "c.csv", "--fdr", rate)
        assert done.code == 2
        assert "strictly between 0 and 1" in done.err
    assert ".csv or .parquet" in run("coefficients", path, "--out", "c.txt").err
    assert run("coefficients", path, "--out", path).code == 2


def test_what_other_commands_say_of_a_linear_model(linear, tables, here):
    path, _ = linear
    table = tables / "train.csv"
    assert "a model of weights is not" in run("examine", path, table).err
    assert "fit it again" in run("update", path, table, "--out", "n.cavity").err
    assert "cannot be compressed" in run("compress", path, "n.cavity").err
    assert run("suggest", path, table, "--n", 2, "--out", "n.csv").code == 0


@pytest.mark.slow
def test_a_fit_says_where_the_rows_hardly_tell_which_columns_matter(here):
    random = np.random.default_rng(3)
    X = random.standard_normal((12, 4))
    y = np.linalg.svd(np.c_[np.ones(12), X])[0][:, 6]  # of which no column says anything
    pl.DataFrame({**{f"x{i}": X[:, i] for i in range(4)}, "y": y}).write_csv("noise.csv")
    fit = ("fit", "noise.csv", "--model", "linear", "--target", "y", "--out", "n.cavity")
    assert "mostly come from the prior" in run(*fit, "--json").json["selection_message"]
    assert "mostly come from the prior" in " ".join(run("show", "n.cavity").out.split())


@pytest.mark.slow
def test_noise_that_is_averaged_over(tables, here):
    """Its interval is in the record of the fit; other words are refused."""
    fit = ("fit", tables / "train.csv", "--model", "linear", "--target", "weight", *IGNORED)
    few = (*fit, "--prior", "gaussian", "--out", "i.cavity", "--integrate")
    record = run(*few, "noise", "--json").json
    assert set(record["integrated"]) == {"likelihood.variance"}
    noise = record["integrated"]["likelihood.variance"]
    assert 0.0 < noise["lower"] < noise["median"] < noise["upper"]
    assert "averaged over likelihood.variance" in " ".join(run("show", "i.cavity").out.split())
    wrong = run(*few, "noise,share")
    assert wrong.code == 2
    assert "must be one of" in wrong.err
    assert "integrated" not in run(*few, "none", "--json").json
    assert run("coefficients", "i.cavity", "--out", "c.csv", "--json").json["averaged_over"] == []
    other = run("fit", tables / "train.csv", "--target", "weight", "--integrate", "noise")
    assert other.code == 2
