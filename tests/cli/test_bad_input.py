"""Misuse: the exit code says whose mistake it was, and the message what to do."""

import os
import re

import numpy as np
import polars as pl
import pytest

from cavity.cli import fit as cli_fit
from cavity.cli import use as cli_use
from cavity.learning.infer import NumericalError
from tests.cli.conftest import people, run


def error(done, kind):
    """The message of a command that failed after opening a file, checked."""
    assert done.code == 1, done
    record = done.json
    assert sorted(record) == ["command", "error", "version"]
    assert sorted(record["error"]) == ["kind", "message"]
    assert record["error"]["kind"] == kind
    assert record["error"]["message"] in done.err
    assert "Traceback" not in done.err
    return record["error"]["message"]


def fit(table, *options, target="weight"):
    return run("fit", table, "--target", target, "--out", "m.cavity", "--json", *options)


CELLS = {
    "not a number": ("abc", "not a number"),
    "NaN": ("NaN", "missing"),
    "missing": ("", "missing"),
    "infinity": ("inf", "infinite"),
    "decimal comma": ('"1,5"', "1.5"),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("column", ["height", "weight"])
def test_a_bad_cell(here, name, column):
    cell, expected = CELLS[name]
    table = people(20).select("height", "weight").with_columns(pl.all().cast(pl.String))
    lines = table.write_csv().splitlines()
    cells = lines[7].split(",")
    cells[column == "weight"] = cell
    lines[7] = ",".join(cells)
    (here / "t.csv").write_text("\n".join(lines))
    message = error(fit("t.csv"), "data")
    assert column in message
    assert "row 7" in message
    assert expected in message
    assert not (here / "m.cavity").exists()


TABLES = {
    "nothing": ("", "empty"),
    "no rows": ("height,weight\n", "no rows"),
    "no target": ("height,width\n1,2\n", "no column 'weight'"),
    "no inputs": ("weight\n1\n2\n", "no input column"),
    "two of a name": ("height,height,weight\n1,2,3\n", "two columns"),
    "long row": ("height,weight\n1,2,3\n", "line 2"),
    "two forms of dates": (
        "day,weight\n2020-01-01,2\n31/12/2020,3\n",
        "row 1 ('2020-01-01') and row 2 ('31/12/2020')",
    ),
    "dates that can be read in two ways": ("day,weight\n01/02/2020,2\n", "01 February 2020 or"),
    "dates to predict": ("x,weight\n1,2020-01-01\n2,2020-01-02\n", "holds dates or times"),
    "thousands or decimals": ('height,weight\n"1,234",2\n', "is 1234 or 1.234"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_bad_table(here, name):
    content, expected = TABLES[name]
    (here / "t.csv").write_text(content)
    assert expected in error(fit("t.csv"), "data")


TARGETS = {
    "text as numbers": ("colour --task regression", "holds text (such as 'blue'), and regression"),
    "text as counts": ("colour --likelihood laplace", "asks for classification, and 'laplace' is"),
    "truth values as counts": ("smoker --likelihood laplace", "or give --task regression"),
    "numbers as classes": ("weight --task classification", "30 classes (.*, or leave --task out"),
    "two targets": ("smoker --target colour", "a classification has one target, given smoker, c"),
    "a text among numbers": ("weight --target colour", "one target, given weight, colour"),
    "known noise": ("smoker --noise-column noise", "and the target 'smoker' asks for classifica"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_that_does_not_suit_the_task(here, tables, name):
    options, expected = TARGETS[name]
    target, *options = options.split()
    message = error(fit(tables / "train.csv", *options, target=target), "data")
    assert re.search(re.sub(r"([()])", r"\\\1", expected), message)
    assert not (here / "m.cavity").exists()


def test_one_class_only(here):
    people(20).with_columns(smoker=pl.lit("yes")).write_csv("t.csv")
    assert "one class only, yes" in error(fit("t.csv", target="smoker"), "data")
    table = people(20).with_columns(smoker=pl.Series(["no"] + ["yes"] * 19))
    table.with_columns(height=pl.Series([None, *table["height"][1:]])).write_csv("t.csv")
    message = error(fit("t.csv", "--drop-missing", target="smoker"), "data")
    assert "one class only, yes" in message


def test_a_class_that_was_not_there_in_fitting(here, tables, classes):
    people(12, 4).with_columns(smoker=pl.Series(["maybe", *["true"] * 11])).write_csv("t.csv")
    for done in (
        run("evaluate", classes, "t.csv", "--json"),
        run("predict", classes, "t.csv", "--out", "p.csv", "--density", "--json"),
    ):
        assert "row 1: 'maybe' is neither true nor false" in error(done, "data")
    assert run("predict", classes, "t.csv", "--out", "p.csv").code == 0


def test_quantiles_of_classes(here, classes, tables):
    done = run(
        "predict", classes, tables / "test.csv", "--out", "p.csv", "--quantiles", 0.5, "--json"
    )
    assert "false and true apart, and classes have no quantiles" in error(done, "data")


def test_a_column_that_a_kernel_names_and_a_table_lacks(here, tables):
    message = error(fit(tables / "train.csv", "--kernel", "rbf[hight]"), "data")
    assert "did you mean 'height'" in message


def test_a_table_to_predict_that_lacks_a_column(here, model):
    people(5).drop("height").write_csv("t.csv")
    done = run("predict", model, "t.csv", "--out", "p.csv", "--json")
    assert "no column 'height'" in error(done, "data")
    assert not (here / "p.csv").exists()


def test_a_text_where_the_model_has_numbers(here, model):
    people(5).with_columns(height=pl.lit("tall")).write_csv("t.csv")
    done = run("predict", model, "t.csv", "--out", "p.csv", "--json")
    assert "'tall' is not a number" in error(done, "data")


def test_a_parquet_file_cut_in_half(here, tables):
    whole = (tables / "test.parquet").read_bytes()
    (here / "t.parquet").write_bytes(whole[: len(whole) // 2])
    assert "not a whole parquet file" in error(fit("t.parquet"), "data")


# --------------------------------------------------------------------------- model files


@pytest.mark.parametrize("command", ["show", "evaluate", "predict"])
def test_a_model_cut_in_half(here, model, tables, command):
    whole = model.read_bytes()
    (here / "half.cavity").write_bytes(whole[: len(whole) // 2])
    more = {"show": [], "evaluate": [tables / "test.csv"]}
    more["predict"] = [tables / "test.csv", "--out", "p.csv"]
    done = run(command, "half.cavity", *more[command], "--json")
    assert "damaged" in error(done, "model")


@pytest.mark.parametrize("place", [3, 100, 0.5, -3])
def test_a_model_with_one_changed_byte(here, model, place):
    data = bytearray(model.read_bytes())
    data[int(place * len(data)) if isinstance(place, float) else place] ^= 1
    (here / "changed.cavity").write_bytes(data)
    error(run("show", "changed.cavity", "--json"), "model")


def test_a_table_in_the_place_of_a_model(tables):
    error(run("show", tables / "train.csv", "--json"), "model")


def test_a_library_model_without_its_table(here, model):
    from cavity.persistence import model_file as storage

    posterior, _ = storage.load_module(model)
    storage.save_module("bare.cavity", posterior, {})
    assert "cavity fit" in error(run("show", "bare.cavity", "--json"), "model")


# --------------------------------------------------------------------------------- paths


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "show"])
def test_paths_that_cannot_be_read(here, model, tables, command):
    arguments = {
        "fit": ["none.csv", "--target", "weight", "--out", "m.cavity"],
        "predict": [model, "none.csv", "--out", "p.csv"],
        "evaluate": [model, here / "none.csv"],
        "show": ["none.cavity"],
    }
    assert "none." in error(run(command, *arguments[command], "--json"), "io")


def test_a_folder_in_the_place_of_a_table(here):
    (here / "folder.csv").mkdir()
    assert "folder" in error(fit("folder.csv"), "io")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_an_unreadable_table(here):
    people(5).write_csv("t.csv")
    (here / "t.csv").chmod(0)
    assert "permission" in error(fit("t.csv"), "io")


def test_places_that_cannot_be_written_are_noticed_before_the_work(here, tables, model):
    common = ("--target", "weight", "--json")
    done = run("fit", tables / "train.csv", "--out", "none/m.cavity", *common)
    assert "no folder none" in error(done, "io")
    done = run("predict", model, tables / "test.csv", "--out", "none/p.csv", "--json")
    assert "no folder none" in error(done, "io")
    done = run("report", model, tables / "test.csv", "--out", "none/r.html", "--json")
    assert "no folder none" in error(done, "io")


# ---------------------------------------------------------------------- the command line

FIT = "fit none.csv --target y --out m.cavity "
USAGE = {
    FIT + "--kernel rbff": "did you mean 'rbf'",
    FIT + "--kernel 'rbf +'": "the end",
    FIT + "--kernel 'rbf[]'": "column",
    FIT + "--likelihood gausian": "gaussian",
    FIT + "--method ep": "'laplace', 'local_bound', 'mcmc', 'mean_field', 'power_ep', 'tied'",
    FIT + "--method local_bound --likelihood poisson": "does not suit the likelihood 'poisson'",
    FIT + "--method laplace --likelihood laplace": "does not suit the likelihood 'laplace'",
    FIT + "--method local_bound --task classification": "likelihood 'bernoulli', only:",
    FIT + "--method laplace --likelihood heteroscedastic": "only: beta, exponential",
    FIT + "--method tied --inducing full": "'tied' needs inducing points",
    FIT + "--mean median": "constant",
    FIT + "--power 1.5": "between 0 and 1",
    FIT + "--power -0.1": "between 0 and 1",
    FIT + "--power nan": "between 0 and 1",
    FIT + "--power half": "auto, or a number between 0 and 1, given 'half'",
    FIT + "--power atuo": "auto, or a number between 0 and 1, given 'atuo'",
    FIT + "--power auto --model deep": "auto is for Gaussian processes of one layer",
    FIT + "--power auto --batch-rows 10": "auto needs all rows in memory",
    FIT + "--inducing 0": "whole number",
    FIT + "--inducing many": "auto, enough, full",
    FIT + "--inducing enough --method tied": "needs a site for every row",
    FIT + "--inducing enough --model deep": "Gaussian processes of one layer",
    FIT + "--inducing enough --batch-rows 9": "needs all rows in memory",
    FIT + "--seed -1": "seed",
    FIT + "--restarts -1": "restarts",
    FIT + "--priors strong": "--priors: the priors must be one of ['none', 'weak']",
    FIT + "--model deep --priors none": "--priors: it is for Gaussian processes",
    FIT + "--max-iterations 0": "max-iterations",
    FIT + "--task clustering": "regression",
    FIT + "--task classification --likelihood laplace": "has: bernoulli, logit, multinomial",
    FIT + "--task regression --likelihood logit": "not for regression, which has: beta",
    FIT + "--task classification --target z": "one target",
    FIT + "--likelihood probit --target z": "one target",
    FIT + "--likelihood heteroscedastic --target z": "one target",
    FIT + "--exposure-column e": "counts",
    FIT + "--exposure-column e --likelihood laplace": "not laplace",
    FIT + "--noise-column e --likelihood laplace": "go with: gaussian; not with laplace",
    FIT + "--noise-column e --likelihood heteroscedastic": "not with heteroscedastic",
    FIT + "--noise-column e --likelihood probit": "go with: gaussian; not with probit",
    FIT + "--noise-column e --target z": "one target",
    FIT + "--speed 3": "--speed",
    "fit none.csv --target y --out none.csv": "itself",
    "fit none.csv --out m.cavity": "--target",
    "fit none.csv --target y": "--out",
    "fit --target y --out m.cavity": "TABLE",
    "fitt none.csv": "fitt",
    "predict m.cavity none.csv": "--out",
    "predict m.cavity none.csv --out p.txt": ".csv",
    "predict m.cavity none.csv --out none.csv": "itself",
    "predict m.cavity none.csv --out p.csv --quantiles 0.5,1": "between 0 and 1",
    "predict m.cavity none.csv --out p.csv --quantiles a": "probabilities",
    "predict m.cavity none.csv --out p.csv --quantiles 0.5,0.50": "twice",
    "report m.cavity none.csv --out m.cavity": "itself",
    "show": "MODEL",
    "show a b": "unexpected",
}


@pytest.mark.parametrize("line", USAGE)
def test_mistakes_on_the_command_line(here, line):
    for extra in ("", " --json"):
        done = run(line + extra)
        assert done.code == 2, done
        assert done.out == ""
        assert USAGE[line] in done.err


# ------------------------------------------------------------------------ numerical ends


def test_a_numerical_failure(here, tables, monkeypatch):
    def learned(*_):
        raise NumericalError("the covariance is not positive definite")

    monkeypatch.setattr(cli_fit, "learned", learned)
    assert "positive definite" in error(fit(tables / "train.csv"), "numerical")


def test_predictions_that_are_not_finite(here, tables):
    linear = ("--kernel", "linear", "--ignore", "colour", "--max-iterations", 2)
    assert fit(tables / "train.csv", *linear).code == 0
    people(3).with_columns(height=pl.Series([1.0, 1e200, 2.0])).write_csv("far.csv")
    done = run("predict", "m.cavity", "far.csv", "--out", "p.csv", "--json")
    assert "number 2" in error(done, "numerical")
    assert not (here / "p.csv").exists()


def test_too_little_memory(here, tables, model, monkeypatch):
    def predictive(*_):
        raise MemoryError

    monkeypatch.setattr(cli_use.TableModel, "predictive", predictive)
    done = run("evaluate", model, tables / "test.csv", "--json")
    assert "memory" in error(done, "numerical")


def test_a_full_gp_on_too_many_rows(here):
    n = 20_001
    pl.DataFrame({"x": np.arange(n), "weight": np.zeros(n)}).write_csv("many.csv")
    assert "--inducing" in error(fit("many.csv", "--inducing", "full"), "data")


def test_without_json_an_error_is_one_line_on_standard_error(here):
    done = run("show none.cavity")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) == 1
