"""The commands with draws: a fit, what reads it, refusals."""

import polars as pl
import pytest

from tests.cli.conftest import people, run
from tests.cli.test_fit import KEYS, METRICS, interrupt_at

FIT = "fit t.csv --target weight --out m.cavity --method mcmc"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table and a model of draws."""
    place = tmp_path_factory.mktemp("draws")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        people().select("height", "weight").write_csv("t.csv")
        done = run(f"{FIT} --likelihood student_t --draws 30 --json")
    assert done.code == 0, done.err
    return place, done


@pytest.fixture
def done(folder, monkeypatch):
    monkeypatch.chdir(folder[0])
    return folder[1]


@pytest.mark.slow
def test_fit(done):
    assert sorted(done.json) == sorted([*KEYS, "mcmc"])
    assert done.json["log_evidence"] is None
    assert done.json["iterations"] == 45
    assert done.json["mcmc"]["draws"] == 30
    names = [row["name"] for row in done.json["mcmc"]["parameters"]]
    assert {"kernel.variance", "kernel.lengthscale[0]", "likelihood.df"} <= set(names)
    # so few draws never suffice
    assert not done.json["converged"]
    assert "not converged" in done.err


@pytest.mark.slow
def test_show(done):
    assert run("show m.cavity --json").json["mcmc"] == done.json["mcmc"]
    out = run("show m.cavity").out
    for said in ("NOT CONVERGED", "not estimated from draws", "R-hat", "worst", "medians"):
        assert said in out


@pytest.mark.slow
def test_predict_and_evaluate(done):
    assert run("predict m.cavity t.csv --out p.csv --quantiles 0.1,0.9 --density").code == 0
    table = pl.read_csv("p.csv")
    assert (table["quantile_0.9"] > table["quantile_0.1"]).all()
    assert table["log_density"].is_finite().all()
    assert sorted(run("evaluate m.cavity t.csv --json").json["metrics"]) == sorted(METRICS)


@pytest.mark.slow
def test_report(done):
    assert run("report m.cavity t.csv --out r.html").code == 0
    with open("r.html") as file:
        page = file.read()
    for said in ("did not converge", "Draws", "R-hat", "not estimated from draws"):
        assert said in page


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{FIT} --inducing 5", "leave --inducing out"),
        (f"{FIT} --target height", "one target"),
        (f"{FIT} --draws 5", "--draws"),
        (f"{FIT.replace(' --method mcmc', '')} --draws 50", "with --method mcmc only"),
    ],
)
def test_refusals(here, command, message):
    done = run(command)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("iteration", "said"),
    [
        (6, "too few draws to keep; each chain has 0 after its warm-up, 50 are needed"),
        pytest.param(96, "m.cavity holds the draws so far", marks=pytest.mark.slow),
    ],
    ids=["too few", "enough"],
)
def test_interrupted_draws(here, monkeypatch, capfd, iteration, said):
    """Too few are not kept, and nothing says that they are."""
    people().select("height", "weight").write_csv("t.csv")
    interrupt_at(monkeypatch, iteration)
    done = run(f"{FIT} --draws 80")
    assert done.code == 130
    assert said in done.err
    assert (here / "m.cavity").exists() == ("holds" in said)
    at_once = capfd.readouterr().err
    assert "keeping the draws so far, if they are enough" in at_once
    assert "best model" not in done.err + at_once


def test_without_the_extra(here, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "blackjax", None)
    done = run(FIT)
    assert done.code == 2
    assert "cavity[mcmc]" in done.err
