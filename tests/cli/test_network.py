"""`cavity fit --model network`, and uses of such a model."""

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity.tables.schema import encode
from cavity.tables.table_model import TableModel
from tests.cli.conftest import people, run

IGNORED = ("--ignore", "spare", "--ignore", "noise")
SMALL = ("--model", "network", "--hidden", 2, "--max-iterations", 2)


@pytest.fixture(scope="module")
def network(tables):
    """A network of one target with three kinds of inputs, and what the fit said."""
    path = tables / "network.cavity"
    fit = ("fit", tables / "train.csv", *SMALL, "--target", "weight", *IGNORED)
    done = run(*fit, "--out", path, "--test", tables / "test.csv", "--json")
    assert done.code == 0, done.err
    return path, done.json


def test_a_fit_is_that_of_the_estimator_with_a_group_for_each_category(network):
    path, record = network
    fitted = TableModel.load(path)
    encoded = encode(people(), fitted.schema)
    assert encoded.y is not None
    settings: Any = {"hidden": 2, "max_iterations": 2, "random_state": 0}
    # a column each, and the three of the category together
    own: Any = cavity.NetworkRegressor(groups=[0, 1, 2, 2, 2], **settings)
    with pytest.warns(ConvergenceWarning):
        own.fit(encoded.X, encoded.y[:, 0])
    np.testing.assert_allclose(record["log_evidence"], own.log_evidence_, rtol=1e-7)
    found = [record["relevance"][name] for name in fitted.schema.features]
    np.testing.assert_allclose(found, own.relevance_, rtol=1e-6)
    assert (record["prior"], record["hidden"], record["power"]) == ("ard", 2, 1.0)
    assert record["test"]["rmse"] < 2.0


@pytest.mark.slow
def test_a_saved_network_is_shown_judged_and_reported(network, tables, here):
    path, record = network
    shown = run("show", path).out
    assert "network, gaussian noise, 2 hidden units, ard prior" in shown
    assert "relevance" in shown
    assert "start." not in shown
    judged = run("evaluate", path, tables / "test.csv", "--json").json
    np.testing.assert_allclose(judged["metrics"]["rmse"], record["test"]["rmse"])
    pictures = run("report", path, tables / "test.csv", "--out", "n.html", "--json").json
    assert "relevance" in pictures["figures"]
    page = (here / "n.html").read_text()
    assert "Relevance of the inputs" in page
    assert "Coefficients" not in page


@pytest.mark.slow
def test_several_layers(tables, here):
    small = ("--model", "network", "--hidden", "2,2", "--max-iterations", 1)
    fit = ("fit", tables / "train.csv", *small, "--target", "weight", *IGNORED)
    record = run(*fit, "--out", "deep.cavity", "--json").json
    assert record["hidden"] == [2, 2]
    assert "2 and 2 hidden units" in run("show", "deep.cavity").out


@pytest.mark.slow
def test_two_classes(tables, here):
    fit = ("fit", tables / "train.csv", *SMALL, "--prior", "gaussian", "--target", "smoker")
    record = run(*fit, *IGNORED, "--out", "c.cavity", "--json").json
    assert record["classes"] == ["false", "true"]
    assert record["prior"] == "gaussian"


@pytest.mark.slow
def test_minibatches_are_those_of_the_estimator(tables, here):
    small = ("--model", "network", "--hidden", 2, "--batch", 20, "--steps", 3)
    fit = ("fit", tables / "train.csv", *small, "--target", "weight", *IGNORED)
    done = run(*fit, "--out", "batches.cavity", "--json")
    record = done.json
    assert "more steps may predict better" in done.err
    fitted = TableModel.load("batches.cavity")
    encoded = encode(people(), fitted.schema)
    assert encoded.y is not None
    settings: Any = {"hidden": 2, "batch": 20, "steps": 3, "random_state": 0}
    own: Any = cavity.NetworkRegressor(groups=[0, 1, 2, 2, 2], **settings)
    with pytest.warns(ConvergenceWarning):
        own.fit(encoded.X, encoded.y[:, 0])
    np.testing.assert_allclose(record["log_evidence"], own.log_evidence_, rtol=1e-7)
    assert (record["method"], record["batch"], record["steps"]) == ("tied", 20, 3)
    told = run("report", "batches.cavity", tables / "test.csv", "--out", "b.html")
    assert told.code == 0, told.err
    page = (here / "b.html").read_text()
    assert "Learning by minibatches ended early" in page
    assert "all rows of a network share the sites of its weights" in page


def test_what_is_refused(network, tables, here):
    path, _ = network
    fit = ("fit", tables / "train.csv", "--out", "n.cavity")
    of_weight = (*fit, "--target", "weight", "--model", "network")

    def why(*options, code=2):
        done = run(*options)
        assert done.code == code, done.err
        return done.err

    assert "add --model network" in why(*fit, "--target", "weight", "--hidden", 3)
    for units in (0, "2,", "2,x"):
        assert "--hidden" in why(*of_weight, "--hidden", units)
    assert "ard" in why(*of_weight, "--prior", "lasso")
    assert "a network has no kernel" in why(*of_weight, "--kernel", "linear")
    assert "a bias" in why(*of_weight, "--mean", "zero")
    assert "with --batch ROWS: add it" in why(*of_weight, "--steps", 3)
    batches = (*of_weight, "--batch", 20)
    assert "in --steps: give these" in why(*batches, "--max-iterations", 3)
    assert "from one start: leave it out" in why(*batches, "--restarts", 2)
    assert "given horseshoe" in why(*batches, "--prior", "horseshoe")
    assert "add --model network" in why(*fit, "--target", "weight", "--batch", 20)
    assert "one target" in why(*of_weight, "--target", "spare")
    assert "several functions" in why(*of_weight, "--likelihood", "heteroscedastic")
    assert "two classes" in why(*fit, "--target", "colour", "--model", "network")
    assert "no coefficients" in why("coefficients", path, "--out", "c.csv", code=1)
    assert "model of weights" in why("examine", path, tables / "train.csv", code=1)
