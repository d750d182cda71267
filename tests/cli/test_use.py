"""`cavity predict`, `evaluate` and `report`."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import cavity
from cavity.tables.files import read_table
from cavity.tables.schema import encode
from cavity.tables.table_model import TableModel
from tests.cli.conftest import people, run
from tests.cli.test_fit import METRICS


def predict(model, table, *options, out="p.csv"):
    return run("predict", model, table, "--out", out, *options)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_row_per_row_in_order(here, model, tables, ending):
    done = predict(model, tables / f"test.{ending}", "--json", out=f"p.{ending}")
    assert done.code == 0
    keys = "command version seconds warnings model table out n_rows columns outside"
    assert sorted(done.json) == sorted(keys.split())
    assert done.json["n_rows"] == 12
    assert done.json["columns"] == ["mean", "std"]
    written = pl.read_csv("p.csv") if ending == "csv" else pl.read_parquet("p.parquet")
    assert written.columns == ["mean", "std"]
    fitted = TableModel.load(model)
    out = fitted.predictive(encode(people(12, 4), fitted.schema).X)
    np.testing.assert_array_equal(written["mean"], out.mean[:, 0])
    np.testing.assert_array_equal(written["std"], out.std[:, 0])


@pytest.mark.parametrize("read", [pl.read_csv, pd.read_csv])
def test_a_model_file_is_an_estimator(here, model, tables, read):
    """The same predictions in Python, of a data frame; and a file of that for the commands."""
    estimator = cavity.load(model)
    columns = [column.name for column in TableModel.load(model).schema.inputs]
    mean, std = estimator.predict(read(tables / "test.csv")[columns], return_std=True)
    estimator.save("again.cavity")
    for name in (model, "again.cavity"):
        assert predict(name, tables / "test.csv").code == 0
        written = pl.read_csv("p.csv")
        np.testing.assert_array_equal(written["mean"], mean)
        np.testing.assert_array_equal(written["std"], std)
    shown = [run("show", name, "--json").json for name in (model, "again.cavity")]
    for record in shown:
        del record["seconds"], record["model"]
    assert shown[0] == shown[1]


def test_quantiles_and_density(here, model, tables):
    done = predict(model, tables / "test.csv", "--quantiles", "0.05, .5,0.95", "--density")
    assert done.code == 0
    written = pl.read_csv("p.csv")
    names = ["mean", "std", "quantile_0.05", "quantile_0.5", "quantile_0.95", "log_density"]
    assert written.columns == names
    np.testing.assert_allclose(written["quantile_0.5"], written["mean"], rtol=1e-12)
    width = (written["quantile_0.95"] - written["quantile_0.05"]) / written["std"]
    np.testing.assert_allclose(width, 2 * 1.6448536269514722, rtol=1e-10)
    z = (people(12, 4)["weight"] - written["mean"]) / written["std"]
    density = -0.5 * (np.log(2 * np.pi) + z**2) - np.log(written["std"].to_numpy())
    np.testing.assert_allclose(written["log_density"], density, rtol=1e-10)


def test_several_targets_name_their_columns(here, two_targets, tables):
    done = predict(two_targets, tables / "test.csv", "--quantiles", "0.1", "--density", "--json")
    each = ("mean", "std", "quantile_0.1", "log_density")
    names = [f"{part}_{target}" for target in ("weight", "spare") for part in each]
    assert done.json["columns"] == names
    written = pl.read_csv("p.csv")
    assert written.columns == names
    assert 40 < written["mean_weight"].mean() < 100
    assert abs(written["mean_spare"]).max() < 1e-2


def test_the_target_need_not_be_there_nor_the_order_the_same(here, model, tables):
    table = people(12, 4)
    table.select("extra_" + pl.col("height").cast(pl.String), "colour", "smoker", "height").rename(
        {"literal": "extra"}
    ).write_csv("new.csv")
    assert predict(model, "new.csv").code == 0
    predict(model, tables / "test.csv", out="q.csv")
    assert pl.read_csv("p.csv").equals(pl.read_csv("q.csv"))
    refused = predict(model, "new.csv", "--density", "--json")
    assert refused.code == 1
    assert "weight" in refused.json["error"]["message"]


def test_incomplete_rows_have_blank_outputs(here, model):
    table = people(12, 4)
    table = table.with_columns(height=pl.Series([None, *table["height"][1:]]))
    table.write_csv("gaps.csv")
    assert predict(model, "gaps.csv").code == 1
    done = predict(model, "gaps.csv", "--drop-missing", "--json")
    assert done.code == 0
    assert done.json["n_rows"] == 12
    assert len(done.json["warnings"]) == 1
    lines = (here / "p.csv").read_text().splitlines()
    assert len(lines) == 13
    assert lines[1] == ","
    assert all(pl.read_csv("p.csv")["std"][1:] > 0)


def test_an_unseen_category_is_a_warning(here, model):
    people(12, 4).with_columns(colour=pl.lit("mauve")).write_csv("new.csv")
    done = predict(model, "new.csv", "--json")
    assert done.code == 0
    assert "mauve" in done.json["warnings"][0]
    assert "mauve" in done.err


def test_evaluate(model, tables):
    done = run("evaluate", model, tables / "test.csv", "--json")
    assert done.code == 0
    keys = "command version seconds warnings model table n_rows metrics outside"
    assert sorted(done.json) == sorted(keys.split())
    assert sorted(done.json["metrics"]) == sorted(METRICS)
    assert done.json["n_rows"] == 12
    text = run("evaluate", model, tables / "test.parquet").out
    assert all(name in text for name in METRICS)


def test_evaluate_means_over_several_targets(two_targets, tables):
    metrics = run("evaluate", two_targets, tables / "test.csv", "--json").json["metrics"]
    each = metrics.pop("per_target")
    assert sorted(each) == ["spare", "weight"]
    assert sorted(metrics) == sorted(METRICS)
    for name, value in metrics.items():
        assert value == pytest.approx((each["weight"][name] + each["spare"][name]) / 2)


def test_undefined_measures_are_null(here, model):
    people(1, 4).write_csv("row.csv")
    assert run("evaluate", model, "row.csv", "--json").json["metrics"]["smse"] is None


ALONE = re.compile(r"(?<![\d.])1 (rows|inputs|figures|evaluations|(inducing )?points|columns)\b")


@pytest.mark.slow
def test_one_is_singular(here):
    """One row, one input, one inducing point, one iteration: and what is said of them."""
    people(1).select("height", "weight").write_csv("one.csv")
    gaps = pl.DataFrame({"height": [1.7, None], "weight": [70.0, 60.0]})
    gaps.write_csv("gaps.csv")
    fit = "fit one.csv --target weight --out m.cavity --inducing 1 --max-iterations 1"
    texts = [run(fit).out]
    assert "1 row, 1 input" in texts[0]
    assert "1 inducing point, power" in texts[0]
    people(9).select("height", "weight").write_csv("nine.csv")
    texts += [run(fit.replace("one.csv", "nine.csv").replace("m.cavity", "n.cavity")).out]
    assert "in 1 iteration: " in texts[1]
    texts += [predict("m.cavity", "one.csv").out, run("evaluate m.cavity one.csv").out]
    assert "predictions of 1 row written" in texts[2]
    assert "1 row of one.csv" in texts[3]
    refused = run("evaluate m.cavity gaps.csv").err
    assert "(1 of 2 rows has a missing cell)" in refused
    left_out = run("evaluate m.cavity gaps.csv --drop-missing").err
    assert "1 of 2 rows left out: a cell is missing" in left_out
    blank = predict("m.cavity", "gaps.csv", "--drop-missing").err
    assert "1 of 2 rows with blank outputs: a cell is missing" in blank
    people(1).select("height", "weight").with_columns(height=None).write_csv("none.csv")
    none = run("evaluate m.cavity none.csv --drop-missing").err
    assert "every row has a missing cell (1 in all): none is left" in none
    run("report m.cavity one.csv --out r.html")
    page = re.sub("<[^>]*>", "", (here / "r.html").read_text().split("<h1>")[1])
    assert "The triangle at the top marks the inducing point" in page
    alts = " ".join(re.findall('alt="([^"]*)"', (here / "r.html").read_text()))
    assert "observed values of 1 row." in alts
    run("report n.cavity nine.csv --out n.html")
    assert re.search(r"\b1 iteration, \d+ evaluation", (here / "n.html").read_text())
    texts += [refused, left_out, blank, none, page, alts]
    assert not [found[0] for text in texts for found in ALONE.finditer(text)]


@pytest.mark.slow
def test_report(here, model, tables):
    done = run("report", model, tables / "test.csv", "--out", "r.html", "--json")
    assert done.code == 0, done.err
    keys = "command version seconds warnings model table out figures outside"
    assert sorted(done.json) == sorted(keys.split())
    assert len(done.json["figures"]) > 2
    page = (here / "r.html").read_text()
    assert "weight" in page
    assert "</html>" in page


def test_predictions_do_not_need_the_training_table(here, model, tables):
    """The model file alone, at another place, is enough."""
    (here / "moved.cavity").write_bytes(model.read_bytes())
    read_table(tables / "train.csv")
    assert predict("moved.cavity", tables / "test.csv").code == 0


EXAMINED = (
    "command version seconds warnings model table n_rows log_evidence noise_alone bracket enough "
    "more_than_noise explained share terms noise inducing gains learnable learned verdicts"
)


def test_examine(two_targets, tables):
    done = run("examine", two_targets, tables / "train.csv", "--json")
    assert done.code == 0, done.err
    assert sorted(done.json) == sorted(EXAMINED.split())
    bracket = done.json["bracket"]
    assert bracket["lower"] <= bracket["upper"]
    assert bracket["proved"]
    assert done.json["enough"] in (True, False)
    assert done.json["inducing"]["size"] == 8
    assert len(done.json["gains"]) == 10
    assert {gain["row"] for gain in done.json["gains"]} <= set(range(1, 31))
    terms = done.json["terms"]
    assert sum(terms.values()) == pytest.approx(done.json["log_evidence"])
    text = run("examine", two_targets, tables / "train.csv").out
    assert all(sentence in text for sentence in done.json["verdicts"])
    assert "weight, spare" in text


def test_examine_a_full_gp_and_two_classes(model, classes, tables):
    found = run("examine", model, tables / "train.csv", "--json").json
    assert found["enough"] is True
    assert found["inducing"] is None
    assert found["bracket"]["level"] == "exact"
    found = run("examine", classes, tables / "train.csv", "--json").json
    assert found["terms"] is None
    assert found["bracket"]["proved"] is False


def test_examine_refuses_what_it_cannot_read(here, model, tables):
    table = people(12, 4)
    table.drop("weight").write_csv("short.csv")
    table.with_columns(height=pl.Series([None, *table["height"][1:]])).write_csv("gaps.csv")
    (here / "cut.cavity").write_bytes(model.read_bytes()[:500])
    for where, what, named in (
        (model, "short.csv", "weight"),
        (model, "gaps.csv", "row 1"),
        ("cut.cavity", tables / "train.csv", "cut.cavity"),
        (model, "nowhere.csv", "nowhere.csv"),
    ):
        done = run("examine", where, what)
        assert done.code == 1
        assert named in done.err
        assert len(done.err.strip().splitlines()) == 1
    assert run("examine", model, "gaps.csv", "--drop-missing").code == 0
    people(1, 4).write_csv("row.csv")
    alone = run("examine", model, "row.csv", "--json")
    assert alone.code == 0
    assert alone.json["noise_alone"] is None
    assert "do not vary" in alone.json["verdicts"][-1]


def test_predictions_keep_columns_of_the_table(here, tables, model):
    table = people(12, 4).with_columns(pl.Series("ID", [f"p{i:02}" for i in range(12)]))
    table.write_csv("t.csv")
    keep = ("--keep", "ID", "--keep", "colour")
    for rows in ((), ("--batch-rows", 5)):
        done = run("predict", model, "t.csv", "--out", "p.csv", *keep, *rows, "--json")
        assert done.json["columns"] == ["ID", "colour", "mean", "std"], done.err
        found = pl.read_csv("p.csv")
        assert found.select("ID", "colour").equals(table.select("ID", "colour"))
    done = run("predict", model, "t.csv", "--out", "p.csv", "--keep", "name")
    assert "no column 'name'" in done.err
    table.rename({"ID": "mean"}).write_csv("t.csv")
    done = run("predict", model, "t.csv", "--out", "p.csv", "--keep", "mean")
    assert "a column 'mean' of its own" in done.err


def test_a_table_with_an_index_is_fitted_without_it(here, tables):
    table = people(12)
    rows = table.select(pl.int_range(12).alias("")).hstack(table)
    rows.write_csv("t.csv")
    ignored = ("--ignore", "spare", "--ignore", "noise", "--max-iterations", 1)
    done = run("fit", "t.csv", "--target", "weight", "--out", "m.cavity", *ignored)
    assert done.code == 0, done.err
    assert "the first column, without a name, is an index and left out" in done.err
    assert "12 rows, 3 inputs" in done.out
    assert run("predict", "m.cavity", "t.csv", "--out", "p.csv").code == 0
