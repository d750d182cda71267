"""`cavity update`: what it learns, says and refuses."""

import errno
import shutil

import numpy as np
import polars as pl
import pytest

from cavity.tables.table_model import TableModel
from tests.cli.conftest import run
from tests.tolerances import assert_close

OPTIONS = ("--ignore", "spare", "--ignore", "noise")
HELD = ("--no-learn", "--inducing", "keep")


def fit(table, *options):
    return run("fit", table, "--target", "weight", *OPTIONS, "--out", "m.cavity", *options)


@pytest.fixture
def fitted(here, tables):
    fit(tables / "train.csv", "--inducing", 5, "--max-iterations", 2)
    return here / "m.cavity"


def test_a_model_goes_on_learning(here, tables, fitted):
    record = run("update", fitted, tables / "test.csv", "--out", "n.cavity", *HELD, "--json").json
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
    named = ("--batch-id", "monday", *HELD)
    more = run("update", "n.cavity", tables / "test.csv", "--out", "n.cavity", *named, "--json")
    assert more.json["skipped"] is False
    twice = run("update", "n.cavity", tables / "train.csv", "--out", "n.cavity", *named)
    assert twice.code == 0
    assert "has learned from this batch already" in twice.err


def test_a_file_remembers_the_scales_of_all_rows(here, tables, fitted):
    """Bounds and steps of learning are those of all rows, not of the first table."""
    run("update", fitted, tables / "test.csv", "--out", "n.cavity", *HELD)
    outputs = TableModel.load("n.cavity").tallies[1]
    first, second = (pl.read_csv(tables / f"{part}.csv")["weight"] for part in ("train", "test"))
    weights, scale = np.concatenate([first, second]), TableModel.load("n.cavity").output_scale
    assert_close(outputs.count, [len(weights)])
    assert_close(outputs.var * scale**2, [np.var(weights)], "fixed_point")


def test_the_record_has_the_power_of_the_update(here, tables, fitted):
    power = (*HELD, "--power", 1.0)
    done = run("update", fitted, tables / "test.csv", "--out", "n.cavity", *power)
    assert done.code == 0, done.err
    assert run("show", "n.cavity", "--json").json["power"] == 1.0


def test_other_outputs_are_another_batch(here, tables, fitted):
    pl.read_csv(tables / "test.csv").with_columns(pl.col("weight") + 0.1).write_csv("other.csv")
    for table in (tables / "test.csv", "other.csv"):
        done = run("update", fitted, table, "--out", fitted, *HELD, "--json")
        assert done.json["skipped"] is False


def test_the_evidence_is_in_the_units_of_the_outputs(here, tables):
    """In tenths of it the density of a row is a tenth; models with uncertain noise divide."""
    records = []
    for name, factor in (("kg", 1.0), ("hg", 10.0)):
        for part in ("train", "test"):
            given = pl.read_csv(tables / f"{part}.csv")
            given.with_columns(pl.col("weight") * factor).write_csv(f"{part}-{name}.csv")
        noise = ("--likelihood", "heteroscedastic", "--inducing", 5, "--max-iterations", 1)
        fit(f"train-{name}.csv", *noise)
        done = run("update", "m.cavity", f"test-{name}.csv", "--out", "n.cavity", *HELD, "--json")
        records.append(done.json)
    smaller, larger = records
    expected = smaller["log_evidence"] - smaller["rows_seen"] * np.log(10.0)
    assert_close(larger["log_evidence"], expected, "fixed_point")


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
    done = run("update", fitted, tables / "test.csv", "--out", fitted, *HELD)
    assert done.code == 1
    assert "has changed since it was read" in done.err


def halves(table, folder):
    """A table in two halves."""
    rows = pl.read_csv(table)
    rows[: len(rows) // 2].write_csv(folder / "first.csv")
    rows[len(rows) // 2 :].write_csv(folder / "second.csv")
    return folder / "first.csv", folder / "second.csv"


@pytest.mark.slow
def test_rows_that_stay_in_memory(here, tables, fitted):
    """Rows that a file keeps are seen again with the next ones: with Gaussian noise no change."""
    first, second = halves(tables / "test.csv", here)
    records = []
    for memory in (0, 4, 100):
        shutil.copy(fitted, "n.cavity")
        for table in (first, second):
            options = ("--memory", memory, *HELD, "--json")
            done = run("update", "n.cavity", table, "--out", "n.cavity", *options)
        records.append(done.json)
        kept = TableModel.load("n.cavity").memory
        assert memory == len(kept["X"] if kept else ()) or memory == 100
    assert (
        len(kept["X"]) == records[-1]["rows_seen"] - run("show", fitted, "--json").json["n_rows"]
    )
    for record in records[1:]:
        assert_close(record["log_evidence"], records[0]["log_evidence"], "factorised")
        assert record["rows_seen"] == records[0]["rows_seen"]
    # a memory that is given up again
    third = run("update", "n.cavity", tables / "train.csv", "--out", "n.cavity", *HELD)
    assert third.code == 0, third.err
    assert TableModel.load("n.cavity").memory is None


@pytest.mark.slow
def test_known_noise_goes_with_the_rows(here, tables):
    """Rows of known noise variances, in two parts, say what they say together."""
    first, second = halves(tables / "train.csv", here)
    options = ("--target", "weight", "--ignore", "spare", "--noise-column", "noise")
    fit = ("--inducing", 5, "--max-iterations", 2, "--out", "m.cavity")
    assert run("fit", first, *options, *fit).code == 0
    result = run("update", "m.cavity", second, "--out", "n.cavity", *HELD, "--json").json
    before = run("evaluate", "m.cavity", second, "--json").json
    assert result["before"] == before["metrics"]
    after = run("evaluate", "n.cavity", second, "--json").json["metrics"]
    assert after["nlpd"] < before["metrics"]["nlpd"]


def test_a_full_disk_leaves_the_old_file(here, tables, fitted, monkeypatch):
    before = fitted.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = run("update", fitted, tables / "test.csv", "--out", fitted, *HELD, "--json")
    assert done.code == 1
    assert done.json["error"]["kind"] == "io"
    assert "no space left" in done.json["error"]["message"]
    assert fitted.read_bytes() == before
    assert [path.name for path in here.iterdir()] == ["m.cavity"]


@pytest.mark.parametrize("inducing", ["keep", "move"])
def test_it_ends_converged(here, tables, fitted, inducing):
    """And with fewer iterations it says which option allows more."""
    update = ("update", fitted, tables / "test.csv", "--out", "n.cavity", "--inducing", inducing)
    done = run(*update, "--json")
    assert done.json["converged"] is True
    assert done.json["warnings"] == []
    few = run(*update, "--json", "--max-iterations", 1)
    assert few.json["converged"] is False
    assert "limit of 1 iterations: allow more (--max-iterations)" in few.err
    assert few.json["log_evidence"] != done.json["log_evidence"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_without_rows_changes_nothing(here, tables, fitted, ending):
    getattr(pl.read_csv(tables / "test.csv")[:0], f"write_{ending}")(f"empty.{ending}")
    before = fitted.read_bytes()
    for out in (fitted, "n.cavity"):
        done = run("update", fitted, f"empty.{ending}", "--out", out, "--json")
        assert done.code == 0
        assert "has no rows: there is nothing to learn" in done.err
        assert done.json["skipped"] is True
        assert (here / out).read_bytes() == before
    pl.DataFrame({"height": []}).write_csv("other.csv")
    assert "no column 'smoker'" in run("update", fitted, "other.csv", "--out", "o.cavity").err
    (here / "none.csv").write_text("")
    assert run("update", fitted, "none.csv", "--out", "o.cavity").code == 1
