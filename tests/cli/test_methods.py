"""The commands with other inference methods, and with a noise level that varies."""

import numpy as np
import polars as pl
import pytest

from tests.cli.conftest import people, run
from tests.cli.test_fit import KEYS, METRICS


@pytest.fixture
def table(here):
    found = people().select("height", "smoker", "weight")
    found.write_csv("t.csv")
    return found


def fit(*options, target="weight", iterations=2):
    common = ("--target", target, "--out", "m.cavity", "--max-iterations", iterations, "--json")
    return run("fit", "t.csv", *common, *options)


CASES = {
    "laplace": (("--likelihood", "student_t"), "Newton's method", "method laplace\n"),
    "local_bound": (("--likelihood", "laplace"), "parallel sweeps", "method local_bound\n"),
    "mean_field": (("--likelihood", "student_t"), "parallel sweeps", "method mean_field\n"),
    "tied": (("--inducing", 6), "learning", "6 inducing points, method tied, power 0.5\n"),
}


@pytest.mark.parametrize(
    "method",
    ["laplace", "tied", *(pytest.param(m, marks=pytest.mark.slow) for m in CASES if "_" in m)],
)
def test_regression(table, method):
    options, by, shown = CASES[method]
    done = fit("--method", method, *options)
    assert done.code == 0, done.err
    assert sorted(done.json) == sorted(KEYS)
    assert done.json["method"] == method
    assert done.json["sites"]["finished_by"] == by
    again = run("show", "m.cavity", "--json").json
    assert (again["method"], again["sites"]) == (method, done.json["sites"])
    assert shown in run("show", "m.cavity").out
    assert run("predict", "m.cavity", "t.csv", "--out", "p.csv").code == 0
    assert pl.read_csv("p.csv")["mean"].is_finite().all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "tied"])
def test_metrics_and_the_report(table, method):
    assert fit("--method", method, *CASES[method][0]).code == 0
    found = run("evaluate", "m.cavity", "t.csv", "--json").json["metrics"]
    assert sorted(found) == sorted(METRICS)
    assert run("report", "m.cavity", "t.csv", "--out", "r.html").code == 0


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("laplace", ()),
        pytest.param("local_bound", ("--likelihood", "logit"), marks=pytest.mark.slow),
        pytest.param("tied", ("--inducing", "auto"), marks=pytest.mark.slow),
    ],
)
def test_classification(table, method, options):
    done = fit("--method", method, *options, target="smoker")
    assert done.code == 0, done.err
    assert done.json["method"] == method
    assert run("predict", "m.cavity", "t.csv", "--out", "p.csv").code == 0
    assert {"label", "probability_false", "probability_true"} == set(pl.read_csv("p.csv").columns)


def test_a_method_that_suits_not_what_the_table_asks_for(table):
    """The likelihood is known only when the table has been read."""
    done = fit("--method", "local_bound", target="smoker")
    assert done.code == 2
    text = " ".join(done.err.replace("│", " ").split())
    assert "'local_bound' does not suit the likelihood 'bernoulli', only:" in text
    assert "logit" in text


@pytest.mark.parametrize("asked", [(), ("--likelihood", "probit")])
def test_a_method_that_suits_not_so_many_classes(here, asked):
    pl.DataFrame({"x": range(9), "kind": ["a", "b", "c"] * 3}).write_csv("t.csv")
    done = fit("--method", "laplace", *asked, target="kind")
    assert done.code == 2
    text = " ".join(done.err.replace("│", " ").split())
    assert "the likelihood 'multinomial_probit' of 3 classes, only: softmax; give" in text
    assert "--likelihood softmax, or leave --method out" in text


@pytest.fixture
def noisy(here):
    """A table with noise that grows along one of its inputs."""
    random = np.random.default_rng(0)
    x = np.sort(random.uniform(0.0, 10.0, 40))
    y = 100.0 * (np.sin(x) + np.exp(0.4 * x - 4.0) * random.standard_normal(40))
    found = pl.DataFrame({"x": x, "other": random.uniform(0.0, 1.0, 40), "y": y})
    found.write_csv("t.csv")
    return found


VARIES = ("--likelihood", "heteroscedastic", "--power", 0)


@pytest.mark.slow
def test_a_noise_level_that_varies(noisy):
    done = fit(*VARIES, target="y", iterations=4)
    assert done.code == 0, done.err
    learned = done.json["parameters"]
    assert 1e2 < learned["kernel.0.variance"] < 1e6
    assert 1e-3 < learned["kernel.1.variance"] < 1e2
    assert np.shape(learned["kernel.1.lengthscale"]) == (2,)
    assert np.exp(learned["mean.1.value"]) < noisy["y"].var()
    assert run("show", "m.cavity", "--json").json["parameters"] == learned
    shown = run("show", "m.cavity").out
    assert "heteroscedastic likelihood, full GP, power 0" in shown
    assert "kernel.1.lengthscale[other]" in shown
    assert run("predict", "m.cavity", "t.csv", "--out", "p.csv", "--quantiles", 0.95).code == 0
    written = pl.read_csv("p.csv")
    width = (written["quantile_0.95"] - written["mean"]).to_numpy()
    assert width[-5:].mean() > 2.0 * width[:5].mean()


@pytest.mark.slow
def test_metrics_and_the_report_where_noise_varies(noisy, here):
    assert fit(*VARIES, target="y").code == 0
    found = run("evaluate", "m.cavity", "t.csv", "--json").json["metrics"]
    assert all(np.isfinite(value) for value in found.values())
    assert run("predict", "m.cavity", "t.csv", "--out", "p.csv", "--density").code == 0
    assert found["nlpd"] == pytest.approx(-pl.read_csv("p.csv")["log_density"].mean())
    figures = run("report", "m.cavity", "t.csv", "--out", "r.html", "--json").json["figures"]
    assert "relevance" in figures
    assert "<code>mean.1.value</code>" in (here / "r.html").read_text()
