"""Kinds of inducing variables, random waves, and `cavity compress`."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from cavity.tables.table_model import TableModel
from tests.cli.conftest import run

USED = ["--ignore", "spare", "--ignore", "noise", "--ignore", "smoker", "--ignore", "colour"]


def fit(tables, *options, out="m.cavity"):
    return run(
        *("fit", tables / "train.csv", "--target", "weight", "--out", out, *USED),
        *("--max-iterations", 2, *options),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["windows", "waves", "slopes"])
def test_a_kind_is_fitted_kept_and_named(here, tables, kind):
    done = fit(tables, "--inducing", 6, "--inducing-kind", kind, "--json")
    assert done.code == 0, done.err
    assert (done.json["n_inducing"], done.json["inducing_kind"]) == (6, kind)
    posterior: Any = TableModel.load("m.cavity").posterior
    assert type(posterior.model.inducing).__name__.lower() == kind
    assert f"6 inducing {kind}" in run("show", "m.cavity").out


MISUSE = {
    "unknown": (["--inducing", 6, "--inducing-kind", "splines"], "splines"),
    "auto": (["--inducing-kind", "windows"], "--inducing with a number"),
    "full": (["--inducing", "full", "--inducing-kind", "waves"], "--inducing with a number"),
    "no slopes": (
        ["--kernel", "matern12", "--inducing", 6, "--inducing-kind", "slopes"],
        "no slopes",
    ),
    "zero": (["--inducing", 0, "--inducing-kind", "windows"], "from 1 on"),
    "waves": (["--kernel", "fourier(rbf)"], "fourier(rbf, 200)"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_is_refused_plainly(here, tables, case):
    options, words = MISUSE[case]
    done = fit(tables, *options)
    assert done.code in (1, 2)
    assert words in done.err
    assert not (here / "m.cavity").exists()


def test_kinds_are_for_one_function(here, tables):
    options = ["--inducing", 6, "--inducing-kind", "slopes", "--out", "m.cavity"]
    for model, target in (("deep", ["--target", "weight"]), ("latent", [])):
        done = run("fit", tables / "train.csv", "--model", model, *target, *options)
        assert done.code == 2
        assert "--model gp" in done.err


def test_random_waves_are_a_kernel(here, tables):
    done = fit(tables, "--kernel", "fourier(rbf[height], 20)", "--json")
    assert done.code == 0, done.err
    assert done.json["kernel"] == "fourier(rbf[height], 20)"
    assert done.json["n_inducing"] is None
    posterior: Any = TableModel.load("m.cavity").posterior
    assert posterior.process.view.inducing.size == 40


def test_compress_keeps_predictions_in_fewer_numbers(here, tables, two_targets):
    done = run("compress", two_targets, "small.cavity", "--json")
    assert done.code == 0, done.err
    before, after = done.json["numbers"]
    assert after < before
    assert done.json["bytes"][1] < done.json["bytes"][0]
    assert done.json["bytes"][1] == (here / "small.cavity").stat().st_size
    for model, out in ((two_targets, "p.csv"), ("small.cavity", "q.csv")):
        assert run("predict", model, tables / "test.csv", "--out", out).code == 0
    p, q = (pl.read_csv(out).to_numpy() for out in ("p.csv", "q.csv"))
    np.testing.assert_allclose(p, q, rtol=1e-6)
    assert run("show", "small.cavity").code == 0
    again = run("compress", "small.cavity", "smaller.cavity")
    assert again.code == 1
    assert "compressed already" in again.err


def test_compress_refuses_what_it_cannot_make_smaller(here, model, two_targets):
    full = run("compress", model, "small.cavity")
    assert full.code == 1
    assert "full GP" in full.err
    assert run("compress", two_targets, two_targets).code == 2
    assert not (here / "small.cavity").exists()
