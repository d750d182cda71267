"""Tables that are read in batches: the same as read whole, and the same complaints."""

import contextlib
import errno
import json
import signal
from functools import partial

import numpy as np
import polars as pl
import pytest

from cavity.cli import fit as cli_fit
from cavity.cli import gp as cli_gp
from cavity.cli.long_tables import LongTables, accepted
from cavity.learning.engines.kept import kept_folder
from cavity.learning.methods.methods import TiedPowerEP
from cavity.persistence.errors import DataError
from cavity.tables import batched as long_tables
from cavity.tables import row_source
from cavity.tables import survey as table_survey
from cavity.tables.roles import Roles, schema_from
from tests.cli.conftest import people, run
from tests.cli.test_fit import interrupt_at
from tests.tolerances import assert_close

N = 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table in both formats, its models fitted whole, and predictions of them."""
    folder = tmp_path_factory.mktemp("batches")
    people(N).write_csv(folder / "t.csv")
    people(N).write_parquet(folder / "t.parquet")
    done = fit(folder / "t.csv", folder / "whole.cavity")
    (folder / "whole.json").write_text(done.out)
    return folder


def fit(table, out, *options, target="weight"):
    settings = ("--ignore", "spare", "--ignore", "noise", "--inducing", 6)
    words = ("fit", table, "--target", target, "--out", out, "--json", "--max-iterations", 4)
    return run(*words, *settings, *options)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_fit_is_that_of_the_whole_table(folder, here, name):
    whole = json.loads((folder / "whole.json").read_text())
    done = fit(folder / name, "m.cavity", "--batch-rows", 40)
    assert done.code == 0, done.err
    assert "read 40 rows at a time" in done.err
    assert done.json["batches"] == 3
    assert done.json["n_rows"] == N
    assert sorted(done.json) == sorted([*whole, "batches"])
    assert_close(done.json["log_evidence"], whole["log_evidence"], "factorised")
    for key, value in whole["parameters"].items():
        assert_close(done.json["parameters"][key], value, "fixed_point")
    shown = run("show", "m.cavity", "--json").json
    assert (shown["n_rows"], shown["batches"]) == (N, 3)
    assert not [*kept_folder().glob("*-rows-*")]


def test_a_large_table_is_read_in_batches_by_itself(folder, here, monkeypatch):
    monkeypatch.setattr(long_tables, "memory", lambda: 1_000.0)
    monkeypatch.setattr(long_tables, "ROWS", 50)
    done = fit(folder / "t.csv", "m.cavity", "--test", folder / "t.parquet")
    assert done.code == 0, done.err
    assert done.json["batches"] == 2
    assert done.json["test"]["rmse"] < 5.0
    assert run("evaluate", "m.cavity", folder / "t.csv", "--json").json["batches"] == 2


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_name_is_no_pattern(folder, here, ending):
    """`t[1]` is not `t1`, whether or not that is there."""
    (here / f"t[1].{ending}").write_bytes((folder / f"t.{ending}").read_bytes())
    (here / f"t1.{ending}").write_text("no table")
    table = long_tables.long_table(f"t[1].{ending}", 40)
    assert sum(part.height for _, part in table.parts()) == N
    assert long_tables.cell_bytes(here / f"t[1].{ending}") > 0


def test_what_counts_as_large(folder):
    assert long_tables.rows_at_a_time(folder / "t.csv") is None
    assert long_tables.rows_at_a_time(folder / "t.csv", 7) == 7
    assert long_tables.rows_at_a_time(folder / "none.csv") is None
    assert long_tables.cell_bytes(folder / "t.parquet") == 8 * N * 6
    assert long_tables.memory() > 1e6


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_are_those_of_the_whole_table(folder, here, ending):
    options = ("--quantiles", "0.1,0.9", "--density", "--json")
    for name, batches in (("a", ()), ("b", ("--batch-rows", 40))):
        words = ("predict", folder / "whole.cavity", folder / "t.csv", "--out", f"{name}.{ending}")
        done = run(*words, *options, *batches)
        assert done.code == 0, done.err
        assert done.json["n_rows"] == N
    read = pl.read_csv if ending == "csv" else pl.read_parquet
    whole, parts = read(f"a.{ending}"), read(f"b.{ending}")
    assert parts.columns == whole.columns
    assert_close(parts.to_numpy(), whole.to_numpy(), "factorised")
    assert not [path for path in here.iterdir() if path.name.startswith(".")]


def test_metrics_are_those_of_the_whole_table(folder):
    whole = run("evaluate", folder / "whole.cavity", folder / "t.csv", "--json").json
    words = ("evaluate", folder / "whole.cavity", folder / "t.csv", "--batch-rows", 40, "--json")
    parts = run(*words).json
    assert parts["batches"] == 3
    assert parts["n_rows"] == whole["n_rows"]
    assert_close([*parts["metrics"].values()], [*whole["metrics"].values()], "factorised")


@pytest.mark.slow
def test_classes_by_minibatches(here, monkeypatch):
    monkeypatch.setattr(cli_gp, "MINIBATCH", 30)
    monkeypatch.setattr(cli_gp, "TiedPowerEP", partial(TiedPowerEP, max_sweeps=150))
    table = people(N).with_columns(kind=pl.when(pl.col("weight") > 75).then(pl.lit("heavy")))
    table = table.with_columns(pl.col("kind").fill_null("light")).drop("weight")
    table.write_csv("t.csv")
    done = fit("t.csv", "m.cavity", "--batch-rows", 40, target="kind")
    assert done.code == 0, done.err
    assert done.json["method"] == "tied"
    assert done.json["classes"] == ["heavy", "light"]
    assert "'tied' takes its place" in done.err
    words = ("predict", "m.cavity", "t.csv", "--out", "p.parquet", "--batch-rows", 40)
    assert run(*words).code == 0
    assert (pl.read_parquet("p.parquet")["label"] == table["kind"]).mean() > 0.8


# ------------------------------------------------------------------------- interruption


def interrupt_in_pass(monkeypatch, number):
    """Lets Ctrl-C be pressed at the beginning of a pass over the table; gives all passes."""
    begun = []

    @contextlib.contextmanager
    def progress(*, evidence, passes=None):
        def watch(done):
            begun.append(passes.begun)
            if passes.begun == number and not done:
                signal.raise_signal(signal.SIGINT)

        passes.watch = watch
        yield lambda step: None

    monkeypatch.setattr(cli_fit, "progress", progress)
    return begun


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_an_interrupt_in_any_pass_keeps_a_model(folder, here, monkeypatch, share):
    """In the first one, in the search, and in the last, which is for the posterior."""
    with monkeypatch.context() as patch:
        passes = interrupt_in_pass(patch, None)
        assert fit(folder / "t.csv", "m.cavity", "--batch-rows", 40).code == 0
    (here / "m.cavity").unlink()
    interrupt_in_pass(monkeypatch, round(1 + share * (passes[-1] - 1)))
    done = fit(folder / "t.csv", "m.cavity", "--batch-rows", 40)
    assert done.code == 130, done.err
    assert np.isfinite(done.json["log_evidence"])
    assert (here / "m.cavity").exists()


@pytest.mark.slow
def test_an_interrupt_among_minibatches_keeps_a_model(here, monkeypatch):
    table = people(N).with_columns((pl.col("weight") > 75).cast(pl.String).alias("kind"))
    table.drop("weight").write_csv("t.csv")
    interrupt_at(monkeypatch, 3)
    done = fit("t.csv", "m.cavity", "--batch-rows", 40, target="kind")
    assert done.code == 130, done.err
    assert done.json["iterations"] == 3
    assert (here / "m.cavity").exists()


# ---------------------------------------------------------------------------------- misuse


def spoiled(row, cell, column="height"):
    """The lines of a csv with one other cell, rows counted from 1."""
    table = people(N).select("height", "weight", "colour")
    lines = table.write_csv().splitlines()
    cells = lines[row].split(",")
    cells[table.columns.index(column)] = cell
    return [*lines[:row], ",".join(cells), *lines[row + 1 :]]


LATE = {
    "a word": ("abc", "column 'height', row 77: 'abc' is not a number"),
    "missing": ("", "column 'height', row 77: the cell is missing (1 of 30 rows read together"),
    "infinite": ("inf", "column 'height', row 77: the value is infinite"),
    "ragged": ("1.7,2", "line 78 has 4 cells, the header 3"),
}


@pytest.mark.parametrize("case", LATE)
def test_a_bad_cell_in_a_late_batch(here, case):
    cell, said = LATE[case]
    (here / "t.csv").write_text("\n".join(spoiled(77, cell)) + "\n\n\n")
    done = run(
        *("fit", "t.csv", "--target", "weight", "--out", "m.cavity", "--json"),
        *("--inducing", 5, "--batch-rows", 30),
    )
    assert done.code == 1, done.err
    assert done.json["error"]["kind"] == "data"
    assert said in done.json["error"]["message"]
    assert not (here / "m.cavity").exists()


def test_late_trouble_in_prediction(folder, here):
    """A word in a late row leaves no file; a new category is one warning for all rows."""
    table = people(N).with_columns(pl.lit("mauve").alias("colour"))
    table.write_csv("new.csv")
    words = ("predict", folder / "whole.cavity", "new.csv", "--out", "p.csv", "--batch-rows", 40)
    done = run(*words)
    assert done.code == 0
    assert f"{N} of {N} rows hold categories" in done.err
    assert done.err.count("mauve") == 1
    late = people(N).with_columns(pl.col("height").cast(pl.String))
    heights = [*late["height"][:80], "tall", *late["height"][81:]]
    late.with_columns(pl.Series("height", heights)).write_csv("late.csv")
    words = ("predict", folder / "whole.cavity", "late.csv", "--out", "q.csv", "--batch-rows", 40)
    done = run(*words)
    assert done.code == 1
    assert "row 81: 'tall'" in done.err
    assert not (here / "q.csv").exists()


def test_rows_left_out_stay_in_their_place(folder, here):
    heights = people(N)["height"].to_list()
    heights[:45] = [None] * 45
    people(N).with_columns(pl.Series("height", heights)).write_csv("t.csv")
    words = ("predict", folder / "whole.cavity", "t.csv", "--out", "p.parquet", "--batch-rows", 40)
    done = run(*words, "--drop-missing")
    assert done.code == 0, done.err
    assert f"45 of {N} rows with blank outputs" in done.err
    assert pl.read_parquet("p.parquet")["mean"].is_null().to_list() == [True] * 45 + [False] * 45
    empty = people(N).with_columns(pl.lit(None).cast(pl.Float64).alias("height"))
    empty.write_parquet("none.parquet")
    words = ("predict", folder / "whole.cavity", "none.parquet", "--out", "q.csv")
    done = run(*words, "--batch-rows", 40, "--drop-missing")
    assert done.code == 1
    assert "none is left" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--method", "laplace"), "'laplace' needs all rows"),
        (("--inducing", "full"), "a full GP needs all rows"),
        (("--batch-rows", "0"), "--batch-rows"),
    ],
)
def test_what_batches_are_not_for(tables, here, options, said):
    words = ("fit", tables / "train.csv", "--target", "weight", "--out", "m.cavity")
    done = run(*words, "--batch-rows", 10, *options)
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert done.out == ""


def test_a_full_disk_is_told_with_what_to_do(folder, here, monkeypatch):
    def full(file, table):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(row_source, "append", full)
    done = fit(folder / "t.csv", "m.cavity", "--batch-rows", 40)
    assert done.code == 1
    assert done.json["error"]["kind"] == "io"
    assert "no space left on device; make room, or name" in done.json["error"]["message"]


def test_a_large_table_is_not_read_for_what_needs_all_rows(folder, here, monkeypatch):
    monkeypatch.setattr(long_tables, "memory", lambda: 1_000.0)
    monkeypatch.setattr(long_tables.LongTable, "parts", lambda *_: pytest.fail("was read"))
    for options, said in (
        (("--method", "laplace"), "the method 'laplace' needs all rows"),
        (("--inducing", "full"), "a full GP needs all rows"),
    ):
        done = fit(folder / "t.csv", "m.cavity", *options)
        assert done.code == 1
        assert said in done.json["error"]["message"]


def test_blank_lines_at_the_end_are_no_rows(here):
    (here / "t.csv").write_text("a,b\n1,2\n3,4\n5,6\n\n\n\n")
    parts = list(long_tables.long_table("t.csv", 2).parts())
    heights = [part.height for _, part in parts]
    assert [first for first, _ in parts] == [sum(heights[:i]) for i in range(len(heights))]
    assert sum(heights) == 3


def test_a_sample_is_random_and_in_order(here, monkeypatch):
    """It is the same however the table is divided, and the rows of the smallest random keys."""
    monkeypatch.setattr(table_survey, "SAMPLED", 20)
    rows = np.arange(100.0)
    pl.DataFrame({"x": rows, "y": rows}).write_csv("t.csv")
    for start in range(0, 100, 25):
        pl.DataFrame({"x": rows, "y": rows})[start : start + 25].write_csv(f"t{start:02}.csv")
    keys = np.random.default_rng(3).random(100)
    expected = np.sort(np.argsort(keys)[:20])
    for table, size in (("t.csv", 100), ("t.csv", 7), ("t[0-9]*.csv", 11)):
        found = sampled(table, size)
        assert found.tolist() == expected.tolist()
    assert found[0] < 30
    assert found[-1] > 60


def sampled(table, size):
    """Targets of the rows that starting values come from."""
    rows = numbers_of(table, size)
    rows.table.drop()
    return rows.sample.y[:, 0]


def numbers_of(table, size, seed=3):
    """The rows of a table with columns x and y."""
    long = LongTables(long_tables.table_files(table), size, None)
    seen = long.columns_seen(("x", "y"), None)
    schema = schema_from(("x", "y"), seen.evidence.__getitem__, Roles(("y",)))
    reading = row_source.Reading(schema, drop_missing=False, weight_column=None)
    starts = long.starts(seen.rows)
    survey = table_survey.RowSurvey(long.fit, reading, starts, seed, labels=False, check=accepted)
    return long.as_numbers(survey, long.rows_seen(survey), None)


def test_numbers_are_made_again_where_they_are_not(here):
    """As in a process that gets a part later; unless the file is another one by then."""
    table = pl.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0) ** 2})
    table.write_csv("t.csv")
    rows = numbers_of("t.csv", 4)
    (source,) = rows.sources
    batches = [batch.y for batch in source]
    assert [len(y) for y in batches] == [4, 4, 1]
    table.with_columns(pl.col("y") + 1.0).write_csv("t.csv")
    assert np.array_equal(np.concatenate([batch.y for batch in source]), table["y"])
    rows.table.drop()
    with pytest.raises(DataError, match=r"t\.csv has changed since the fit began"):
        [*source]
    table.write_csv("t.csv")
    assert np.array_equal(np.concatenate([batch.y for batch in source]), table["y"])
    rows.table.drop()
    assert not [*kept_folder().glob("*-rows-*")]
