"""Tables of several files: the same as one table, and what is said of each file."""

import itertools
import json
import pickle

import numpy as np
import polars as pl
import pytest

from cavity.cli import engine_options
from cavity.columns.column_types import evidence
from cavity.persistence.errors import CellError, DataError, StorageError
from cavity.tables import batched
from tests.cli.conftest import people, run
from tests.tolerances import assert_close

N = 90
CUTS = (0, 20, 20, 55, N)  # one is empty
FIT = "--target weight --ignore spare --ignore noise --inducing 6 --max-iterations 4 --json"


def labels(table):
    kind = pl.when(pl.col("weight") > 75).then(pl.lit("heavy")).otherwise(pl.lit("light"))
    return table.with_columns(kind.alias("kind"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table as one file and as four, a model of it, and what was said of it."""
    folder = tmp_path_factory.mktemp("parts")
    table = labels(people(N))
    table.write_parquet(folder / "all.parquet")
    for i, (start, end) in enumerate(itertools.pairwise(CUTS)):
        table[start:end].write_parquet(folder / f"p{i}.parquet")
    done = run(f"fit {folder}/all.parquet --ignore kind --out {folder}/whole.cavity {FIT}")
    assert done.code == 0, done.err
    (folder / "whole.json").write_text(done.out)
    return folder


def test_a_fit_of_several_files_is_that_of_one(folder, here):
    whole = json.loads((folder / "whole.json").read_text())
    done = run(f"fit '{folder}/p*.parquet' --ignore kind --out m.cavity {FIT}")
    assert done.code == 0, done.err
    assert (done.json["processes"], done.json["parts"], done.json["retries"]) == (1, 4, 0)
    assert sorted(done.json) == sorted([*whole, "batches", "processes", "parts", "retries"])
    assert done.json["n_rows"] == N
    assert_close(done.json["log_evidence"], whole["log_evidence"], "factorised")
    for key, value in whole["parameters"].items():
        assert_close(done.json["parameters"][key], value, "fixed_point")


@pytest.mark.slow
def test_classes_of_several_files(folder, here):
    """With sites of every row, found pass by pass; a class may be in one file alone."""
    fit = FIT.replace("weight", "kind") + " --ignore weight --method power_ep"
    whole = run(f"fit {folder}/all.parquet --out w.cavity {fit}").json
    done = run(f"fit '{folder}/p*.parquet' --out m.cavity {fit} --processes 1")
    assert done.code == 0, done.err
    assert done.json["method"] == "power_ep"
    assert done.json["classes"] == ["heavy", "light"]
    assert_close(done.json["log_evidence"], whole["log_evidence"], "fixed_point")


def test_predictions_name_the_file(folder, here):
    words = "--keep height --quantiles 0.1 --json"
    run(f"predict {folder}/whole.cavity {folder}/all.parquet --out a.parquet {words}")
    done = run(f"predict {folder}/whole.cavity '{folder}/p*.parquet' --out b.parquet {words}")
    assert done.code == 0, done.err
    assert done.json["n_rows"] == N
    whole, parts = pl.read_parquet("a.parquet"), pl.read_parquet("b.parquet")
    assert parts.columns == ["file", *whole.columns]
    counts = np.diff(CUTS)
    names = [f"{folder}/p{i}.parquet" for i in range(4)]
    assert parts["file"].to_list() == [*np.repeat(names, counts)]
    assert_close(parts.drop("file").to_numpy(), whole.to_numpy(), "factorised")


def test_scores_are_those_of_one_file(folder):
    whole = run(f"evaluate {folder}/whole.cavity {folder}/all.parquet --json").json["metrics"]
    for options in ("", "--processes 1", "--batch-rows 7"):
        done = run(f"evaluate {folder}/whole.cavity '{folder}/p*.parquet' --json {options}")
        assert done.json["parts"] == 4
        assert_close([*done.json["metrics"].values()], [*whole.values()], "factorised")


def test_a_long_file_is_cut_into_pieces(folder, monkeypatch):
    """Whatever the number of processes, so that results do not depend on it."""
    monkeypatch.setattr(batched, "PIECE", 40)
    done = run(f"evaluate {folder}/whole.cavity {folder}/all.parquet --json --processes 1")
    assert (done.json["parts"], done.json["n_rows"]) == (3, N)
    (table,) = batched.pieces_of([str(folder / "all.parquet")], 40)[1:2]
    rows = [(first, part.height) for first, part in table.parts("height")]
    assert rows == [(40, 40)]
    assert table.name.endswith("all.parquet, rows 41 to 80")


# ---------------------------------------------------------------------------------- misuse


def spoil(number, **columns):
    """Four files, of which one has other columns."""
    for i, (start, end) in enumerate([(0, 30), (30, 60), (60, N)]):
        table = people(N)[start:end]
        table = table.with_columns(**columns) if i == number else table
        table.write_parquet(f"t{i}.parquet")


WRONG = {
    "a missing cell": (
        {"height": pl.Series([None] * 3 + [1.7] * 27)},
        "t1.parquet: column 'height', row 1: the cell is missing",
    ),
    "an infinite cell": (
        {"height": pl.Series([1.7] * 29 + [np.inf])},
        "t1.parquet: column 'height', row 30: the value is infinite",
    ),
    "text": (
        {"height": pl.Series(["1.7"] * 9 + ["tall"] * 21)},
        "t1.parquet: column 'height', row 10: 'tall' is not a number",
    ),
    "another column": ({"age": pl.lit(3)}, "t1.parquet has other columns than t0.parquet: it has"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_names_the_file(here, case):
    columns, said = WRONG[case]
    spoil(1, **columns)
    done = run(f"fit t*.parquet --out m.cavity {FIT}")
    assert done.code == 1, done.err
    assert said in done.json["error"]["message"]
    assert not (here / "m.cavity").exists()


def test_files_that_cannot_be_used(folder, here):
    def why(words):
        done = run(f"{words} --json")
        assert done.code == 1, done.out
        return done.json["error"]["message"]

    spoil(None)
    (here / "t1.parquet").write_bytes((here / "t1.parquet").read_bytes()[:300])
    fit = FIT.replace("--json", "--out m.cavity")
    assert "t1.parquet" in why(f"fit t*.parquet {fit}")
    assert "no file is named like u*.parquet" in why(f"fit u*.parquet {fit}")
    (here / "t1.parquet").write_bytes((here / "t0.parquet").read_bytes())
    assert "t0.parquet and t1.parquet have the same rows" in why(f"fit t*.parquet {fit}")
    predict = f"predict {folder}/whole.cavity t*.parquet --out p.csv"
    people(N).with_columns(file=pl.lit(1)).write_parquet("t0.parquet")
    people(N).with_columns(file=pl.lit(1)).write_parquet("t1.parquet")
    (here / "t2.parquet").unlink()
    assert "has a column 'file' of its own" in why(f"{predict} --keep file")
    people(N).clear().write_parquet("t0.parquet")
    people(N).clear().write_parquet("t1.parquet")
    assert "no rows" in why(predict)
    assert "no rows" in why(f"fit t*.parquet {fit}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--method laplace", "'laplace' needs all rows"),
        ("--inducing full", "a full GP needs all rows"),
        ("--power auto", "auto needs all rows in memory"),
        ("--model deep", "a deep model needs all rows in memory"),
        ("--scheduler tcp://127.0.0.1:1", "leave --processes out"),
    ],
)
def test_what_parts_are_not_for(folder, here, options, said):
    words = FIT.replace("--inducing 6", "") if "--inducing" in options else FIT
    done = run(f"fit {folder}/all.parquet --out m.cavity {words} --processes 1 {options}")
    assert done.code == 2, done.err
    assert said in " ".join(done.err.split())


@pytest.mark.parametrize("pattern", ["t*.parquet", "**/t*.parquet"])
def test_an_output_is_no_file_of_the_table(folder, here, pattern):
    spoil(None)
    done = run(f"predict {folder}/whole.cavity {pattern} --out t1.parquet")
    assert done.code == 2
    assert "t1.parquet is the table itself" in " ".join(done.err.split())


def test_a_pattern_of_one_file_is_that_file(folder, here):
    one = run(f"evaluate {folder}/whole.cavity {folder}/al*.parquet --json").json
    whole = run(f"evaluate {folder}/whole.cavity {folder}/all.parquet --json").json
    assert one["metrics"] == whole["metrics"]
    assert run(f"fit {folder}/al*.parquet --ignore kind --out m.cavity {FIT}").code == 0


def test_a_mistake_among_numbers_is_told_by_its_file(here):
    """Which is found once all files were looked through."""
    for i, (start, end) in enumerate(itertools.pairwise(CUTS)):
        table = people(N)[start:end].with_columns(pl.col("height").cast(pl.String))
        if i == 2:
            heights = [*table["height"][:7], "oops", *table["height"][8:]]
            table = table.with_columns(pl.Series("height", heights))
        table.write_csv(f"t{i}.csv")
    done = run(f"fit t*.csv --out m.cavity {FIT}")
    assert "t2.csv: column 'height', row 8: 'oops'" in done.json["error"]["message"]


def test_a_file_without_weight_plays_no_part(here):
    table = people(N).with_columns(pl.lit(1.0).alias("w"))
    for i, rows in enumerate((table[:40], table[40:])):
        rows.write_parquet(f"t{i}.parquet")
    fit = f"--out m.cavity {FIT} --weight-column w"
    known = run(f"fit t*.parquet {fit}").json
    nothing = pl.lit(None).cast(pl.Float64)
    odd = table[:9].with_columns(nothing.alias("height"), pl.lit("mauve").alias("colour"))
    odd.with_columns(pl.lit(0.0).alias("w")).write_parquet("t2.parquet")
    found = run(f"fit t*.parquet {fit}")
    assert found.code == 0, found.err
    assert (found.json["n_rows"], found.json["inputs"]) == (N, known["inputs"])
    assert_close(found.json["log_evidence"], known["log_evidence"], "factorised")
    for name in ("t0", "t1"):
        odd.with_columns(pl.lit(0.0).alias("w")).write_parquet(f"{name}.parquet")
    assert "weight 0" in run(f"fit t*.parquet {fit}").json["error"]["message"]


def test_a_scheduler_that_does_not_answer(folder, monkeypatch):
    pytest.importorskip("distributed", reason="the extra cavity[dask] is not installed")
    monkeypatch.setattr(engine_options, "ANSWER", 1)
    words = f"evaluate {folder}/whole.cavity '{folder}/p*.parquet' --json"
    done = run(f"{words} --scheduler tcp://127.0.0.1:1")
    assert done.code == 1
    assert done.json["error"]["kind"] == "io"
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in done.json["error"]["message"]


@pytest.mark.parametrize(
    "error",
    [
        CellError("a", 3, "is odd"),
        DataError("no room", kind="io"),
        StorageError("cut", kind="model"),
    ],
)
def test_errors_come_through_from_other_processes(error):
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.kind) == (type(error), str(error), error.kind)


def test_evidence_of_pieces_is_that_of_the_whole():
    column = pl.Series("x", ["1", "2.5", None, "red", "blue", "red"] * 3)
    parts = evidence(column[:7]) + evidence(column[7:8]) + evidence(column[8:])
    assert parts == evidence(column)
