"""`cavity suggest`: what it writes, says and refuses."""

import dataclasses

import jax
import numpy as np
import polars as pl
import pytest

import cavity
from cavity.cli import suggest as cli_suggest
from cavity.cli.suggest import _unit
from cavity.tables.files import read_table
from cavity.tables.schema import encode
from cavity.tables.table_model import TableModel
from tests.cli.conftest import people, run

READ = ("height", "smoker", "colour")


@pytest.fixture
def candidates(here):
    """Rows without targets, with a column that the model does not read."""
    table = people(14, seed=8).select(READ).with_columns(pl.Series("name", [*"abcdefghijklmn"]))
    table.write_csv("candidates.csv")
    return table


def test_chosen_rows_are_written_with_all_their_columns(model, candidates):
    record = run("suggest", model, "candidates.csv", "--n", 3, "--out", "next.csv", "--json").json
    written = pl.read_csv("next.csv")
    assert written.columns == ["row", "gain", *candidates.columns]
    assert written["row"].to_list() == record["rows"]
    picked = candidates[written["row"].to_numpy() - 1]
    assert written.drop("row", "gain").rows() == picked.rows()
    np.testing.assert_allclose(written["gain"], record["gains"])
    assert record["criterion"] == "information"
    assert record["n_rows"] == 14


@pytest.mark.parametrize("criterion", ["information", "variance", "integrated", "improvement"])
def test_rows_and_gains_are_those_of_the_library(model, candidates, criterion):
    """Variances in squared units of the target, improvements in its units."""
    options = ("--n", 2, "--criterion", criterion, "--out", "next.parquet")
    done = run("suggest", model, "candidates.csv", *options)
    assert done.code == 0, done.err
    written = pl.read_parquet("next.parquet")
    fitted = TableModel.load(model)
    X = encode(read_table("candidates.csv"), fitted.schema, need_targets=False).X
    with jax.enable_x64(True):
        found = cavity.suggest(fitted.posterior, X, 2, criterion)
    scale = float(fitted.output_scale[0])
    unit = 1.0 if criterion in ("information", "improvement") else scale**2
    more = np.log(scale) if criterion == "improvement" else 0.0
    assert written["row"].to_list() == (found.rows + 1).tolist()
    np.testing.assert_allclose(written["gain"], found.gains * unit + more)
    assert f"by {criterion}" in done.out


def test_gains_have_the_units_of_the_target(model, candidates, monkeypatch):
    """Of a model whose outputs were divided by 3."""
    divided = dataclasses.replace(TableModel.load(model), output_scale=np.array([3.0]))
    criteria = ("information", "variance", "improvement")
    assert [_unit(divided, each) for each in criteria] == [1.0, 9.0, 3.0]
    gains = []
    for factor in (1.0, 9.0):
        monkeypatch.setattr(cli_suggest, "_unit", lambda *_, factor=factor: factor)
        done = run("suggest", model, "candidates.csv", "--n", 2, "--out", "n.csv", "--json")
        gains.append(done.json["gains"])
    np.testing.assert_allclose(gains[1], 9.0 * np.array(gains[0]))


def test_incomplete_rows_are_left_out_and_numbers_stay(model, candidates):
    holes = candidates.with_columns(
        pl.when(pl.int_range(pl.len()) < 12).then(None).otherwise(pl.col("height")).alias("height")
    )
    holes.write_csv("holes.csv")
    refused = run("suggest", model, "holes.csv", "--out", "next.csv")
    assert refused.code == 1
    assert "--drop-missing" in refused.err
    done = run("suggest", model, "holes.csv", "--out", "next.csv", "--drop-missing")
    assert sorted(pl.read_csv("next.csv")["row"].to_list()) == [13, 14]
    assert "all are returned" in done.out


def test_a_reference_says_where_the_function_matters(model, candidates):
    tall = candidates.filter(pl.col("height") == pl.col("height").max())
    tall.write_csv("tall.csv")
    options = ("--criterion", "integrated", "--reference", "tall.csv", "--n", 1)
    run("suggest", model, "candidates.csv", *options, "--out", "next.csv")
    assert pl.read_csv("next.csv")["name"].to_list() == tall["name"].to_list()


@pytest.mark.slow
def test_classes_and_several_targets_are_suggested(candidates, tables, classes, two_targets):
    table = people(6, seed=5)
    table.write_csv("more.csv")
    for fitted in (classes, two_targets):
        record = run("suggest", fitted, "more.csv", "--n", 2, "--out", "n.csv", "--json").json
        assert len(set(record["rows"])) == 2
        assert min(record["gains"]) >= 0.0
        refused = run(
            *("suggest", fitted, "more.csv", "--out", "n.csv", "--criterion", "improvement")
        )
        assert refused.code == 1
        assert "suggests no rows: improvement is of" in refused.err


def test_columns_of_a_table_may_be_called_row_and_gain(here, model, candidates):
    table = candidates.with_columns(row=pl.int_range(len(candidates)), gain=pl.lit(1.0))
    table.write_csv("t.csv")
    done = run("suggest", model, "t.csv", "--out", "next.csv", "--n", 3, "--json")
    written = pl.read_csv("next.csv")
    assert written.columns == ["row_of_table", "gain_of_row", *table.columns]
    assert written["row_of_table"].to_list() == done.json["rows"]
    assert (written["row"] + 1).to_list() == done.json["rows"]


def test_what_it_refuses(model, candidates):
    def why(*options, table="candidates.csv", code=2):
        done = run("suggest", model, table, "--out", "next.csv", *options)
        assert done.code == code
        return done.err

    assert "information, variance, integrated" in why("--criterion", "best")
    assert "leave it out" in why("--reference", "candidates.csv")
    assert "it is for --criterion improvement" in why("--goal", "maximise")
    improvement = ("--criterion", "improvement")
    assert "minimise or maximise, given 'up'" in why(*improvement, "--goal", "up")
    why("--n", 0)
    assert run("suggest", model, "candidates.csv", "--out", "candidates.csv").code == 2
    assert ".csv or .parquet" in run("suggest", model, "candidates.csv", "--out", "n.txt").err
    candidates.drop("colour").write_csv("less.csv")
    assert "no column 'colour'" in why(table="less.csv", code=1)
    candidates.clear().write_csv("none.csv")
    assert "no rows" in why(table="none.csv", code=1)


@pytest.mark.slow
def test_a_model_without_a_joint_distribution_says_what_to_do(here, tables):
    ignored = ("--ignore", "spare", "--ignore", "noise")
    deep = ("--model", "deep", "--steps", 1, "--inducing", 5)
    done = run(
        *("fit", tables / "train.csv", "--target", "weight", *ignored, *deep, "--out", "d.cavity")
    )
    assert done.code == 0, done.err
    refused = run("suggest", "d.cavity", tables / "test.csv", "--out", "next.csv")
    assert refused.code == 1
    assert "infer or fit a GP" in refused.err
