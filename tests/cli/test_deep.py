"""`cavity fit --model deep`, and the commands on such a model."""

import re

import numpy as np
import polars as pl
import pytest

from tests.cli.conftest import people, run
from tests.cli.test_fit import KEYS, METRICS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table and a deep model of it."""
    path = tmp_path_factory.mktemp("deep")
    people().select("height", "smoker", "weight").write_csv(path / "t.csv")
    done = run(
        *("fit", path / "t.csv", "--target", "weight", "--out", path / "m.cavity", "--json"),
        *("--model", "deep", "--inducing", 6, "--steps", 3),
    )
    assert done.code == 0, done.err
    return path, done


@pytest.mark.slow
def test_fit_and_show(folder):
    path, done = folder
    assert sorted(done.json) == sorted({*KEYS, "layers"} - {"priors"})
    assert done.json["method"] == "tied"
    assert not done.json["converged"]
    assert "more steps, or the Gaussian process without hidden layers" in done.err
    assert done.json["n_inducing"] == 6
    assert [layer["width"] for layer in done.json["layers"]] == [2, 1]
    assert done.json["parameters"]["layers.1.kernel.variance"] > 0
    again = run("show", path / "m.cavity", "--json").json
    assert again["layers"] == done.json["layers"]
    assert again["parameters"] == done.json["parameters"]
    shown = run("show", path / "m.cavity").out
    assert "2 layers, 6 inducing points in the last one, method tied, power 0.5" in shown
    assert "layer 2  1          6                the likelihood's" in shown


@pytest.mark.slow
def test_predict_and_evaluate(folder):
    path, _ = folder
    done = run("predict", path / "m.cavity", path / "t.csv", "--out", path / "p.csv", "--density")
    assert done.code == 0, done.err
    found = pl.read_csv(path / "p.csv")
    assert found.columns == ["mean", "std", "log_density"]
    assert np.all(np.isfinite(found.to_numpy()))
    metrics = run("evaluate", path / "m.cavity", path / "t.csv", "--json").json["metrics"]
    assert sorted(metrics) == sorted(METRICS)
    assert metrics["nlpd"] == pytest.approx(-found["log_density"].mean())


@pytest.mark.slow
def test_report(folder):
    path, _ = folder
    done = run("report", path / "m.cavity", path / "t.csv", "--out", path / "r.html")
    assert done.code == 0, done.err
    page = (path / "r.html").read_text()
    assert "<h3>Layers</h3>" in page
    assert "do not say how relevant each input is" in page
    assert "all rows of a deep model share the sites of its layers" in page
    assert 'layers.1.kernel.lengthscale</code></th><td class="name">hidden value 2' in page
    assert "inducing.Z" not in page


REFUSED = {
    "--model flat": ("--model", "must be one of .*'deep', 'gp'"),
    "--model deep --method laplace": ("--method", "one method, 'tied', not 'laplace'"),
    "--model deep --inducing full": ("--inducing", "needs inducing points"),
    "--model deep --restarts 2": ("--restarts", "learned once"),
    "--model deep --max-iterations 5": ("--max-iterations", "give --steps instead"),
    "--model deep --batch-rows 10": ("--batch-rows", "needs all rows in memory"),
    "--model deep --layers 0": ("--layers", "greater than or equal to 1"),
    "--model deep --width 0": ("--width", "greater than or equal to 1"),
    "--layers 3": ("--layers", "add --model deep"),
    "--width 3": ("--width", "add --model deep"),
    "--steps 3": ("--steps", "add --model deep"),
}


@pytest.mark.parametrize("options", REFUSED)
def test_options_that_do_not_go_together(here, options):
    done = run(f"fit t.csv --target y --out m.cavity {options}")
    assert done.code == 2
    assert done.out == ""
    for part in REFUSED[options]:
        assert re.search(part, " ".join(done.err.replace("│", " ").split()))
