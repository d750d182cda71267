"""`cavity update`: what it learns, says and refuses."""

import shutil

import pytest

from tests.cli.conftest import run

OPTIONS = ("--ignore", "spare", "--ignore", "noise")


def fit(table, *options):
    return run("fit", table, "--target", "weight", *OPTIONS, "--out", "m.cavity", *options)


@pytest.fixture
def fitted(here, tables):
    fit(tables / "train.csv", "--inducing", 5, "--max-iterations", 2)
    return here / "m.cavity"


def test_a_model_goes_on_learning(here, tables, fitted):
    held = ("--no-learn", "--inducing", "keep")
    record = run("update", fitted, tables / "test.csv", "--out", "n.cavity", *held, "--json").json
    assert record["skipped"] is False
    assert record["lost"] == 0.0
    rows = run("evaluate", fitted, tables / "test.csv", "--json").json
    assert record["before"] == rows["metrics"]
    assert record["rows_seen"] == run("show", "m.cavity", "--json").json["n_rows"] + rows["n_rows"]
    shown = run("show", "n.cavity").out
    assert f"{record['rows_seen']} rows" in shown
    assert run("predict", "n.cavity", tables / "test.csv", "--out", "p.csv").code == 0
    # the same batch again, and under a name
    again = run("update", "n.cavity", tables / "test.csv", "--out", "n.cavity", "--json")
    assert again.json["skipped"] is True
    assert again.json["rows_seen"] == record["rows_seen"]
    named = ("--batch-id", "monday", *held)
    more = run("update", "n.cavity", tables / "test.csv", "--out", "n.cavity", *named, "--json")
    assert more.json["skipped"] is False
    twice = run("update", "n.cavity", tables / "train.csv", "--out", "n.cavity", *named)
    assert twice.code == 0
    assert "has learned from this batch already" in twice.err


def test_what_it_refuses(here, tables, fitted):
    shutil.copy(fitted, "sparse.cavity")
    full = fit(tables / "train.csv", "--inducing", "full", "--max-iterations", 1)
    assert full.code == 0
    done = run("update", "m.cavity", tables / "test.csv", "--out", "n.cavity")
    assert done.code == 1
    assert "is a full GP, which grows with its rows" in done.err
    for option, value in (("--inducing", "some"), ("--power", 2), ("--half-life", -1)):
        wrong = run(
            "update", "sparse.cavity", tables / "test.csv", "--out", "n.cavity", option, value
        )
        assert wrong.code == 2
    assert not (here / "n.cavity").exists()


def test_a_file_that_changed_meanwhile_is_left(here, tables, fitted, monkeypatch):
    from cavity.cli import update

    other, go_on = here / "other.cavity", update.go_on
    shutil.copy(fitted, other)

    def slowly(*args, **options):
        fitted.write_bytes(other.read_bytes() + b" ")
        return go_on(*args, **options)

    monkeypatch.setattr(update, "go_on", slowly)
    held = ("--no-learn", "--inducing", "keep")
    done = run("update", fitted, tables / "test.csv", "--out", fitted, *held)
    assert done.code == 1
    assert "has changed since it was read" in done.err
