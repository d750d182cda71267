"""The commands on tables of classes."""

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from cavity.estimators.classifier import GPClassifier
from cavity.tables.schema import encode
from cavity.tables.table_model import TableModel
from tests.cli.conftest import people, run
from tests.cli.test_fit import KEYS

METRICS = ["error", "nlpp", "brier", "ece", "auc"]


def fit(table, *options, target):
    common = ("--target", target, "--out", "m.cavity", "--max-iterations", 2, "--json")
    return run("fit", table, *common, *options)


def test_a_truth_value_is_classified_without_being_asked(classes):
    record = run("show", classes, "--json").json
    assert sorted(record) == sorted(KEYS)
    assert record["task"] == "classification"
    assert record["likelihood"] == "bernoulli"
    assert record["classes"] == ["false", "true"]
    assert record["targets"] == ["smoker"]
    assert record["sites"]["sweeps"] > 0
    shown = run("show", classes).out
    assert "classification of smoker: false, true" in shown
    assert "bernoulli likelihood, full GP, power 0.5" in shown


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions(here, classes, tables, ending):
    out = f"p.{ending}"
    done = run("predict", classes, tables / "test.csv", "--out", out, "--density", "--json")
    names = ["label", "probability_false", "probability_true", "log_density"]
    assert done.json["columns"] == names
    written = pl.read_csv(out) if ending == "csv" else pl.read_parquet(out)
    assert written.columns == names
    assert written["label"].dtype == pl.Boolean
    chance, truth = written["probability_true"].to_numpy(), people(12, 4)["smoker"].to_numpy()
    np.testing.assert_allclose(chance + written["probability_false"].to_numpy(), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(written["label"].to_numpy(), chance > 0.5)
    np.testing.assert_allclose(
        written["log_density"].to_numpy(), np.log(np.where(truth, chance, 1 - chance)), rtol=1e-10
    )


def test_metrics_are_those_of_scikit_learn(here, classes, tables):
    done = run("evaluate", classes, tables / "test.csv", "--json")
    found = done.json["metrics"]
    assert list(found) == METRICS
    run("predict", classes, tables / "test.csv", "--out", "p.csv")
    chance = pl.read_csv("p.csv")["probability_true"].to_numpy()
    truth = people(12, 4)["smoker"].to_numpy()
    assert found["error"] == pytest.approx(np.mean((chance > 0.5) != truth))
    assert found["nlpp"] == pytest.approx(log_loss(truth, chance))
    assert found["brier"] == pytest.approx(brier_score_loss(truth, chance))
    assert found["auc"] == pytest.approx(roc_auc_score(truth, chance))
    assert "brier" in run("evaluate", classes, tables / "test.csv").out


def test_auc_needs_both_classes(here, classes):
    people(12, 4).with_columns(smoker=pl.lit(True)).write_csv("t.csv")
    found = run("evaluate", classes, "t.csv", "--json").json["metrics"]
    assert found["auc"] is None
    assert found["error"] is not None


@pytest.mark.slow
def test_is_the_estimator_on_the_same_numbers(tables, classes):
    fitted = TableModel.load(classes)
    encoded = encode(people(), fitted.schema)
    gp = GPClassifier(random_state=0, max_iterations=3)
    with pytest.warns(match="not converged"):
        gp.fit(encoded.X, people()["smoker"].to_numpy())
    np.testing.assert_array_equal(
        fitted.log_probabilities(encoded.X), gp.predict_log_proba(encoded.X)
    )
    assert fitted.record["log_evidence"] == gp.log_evidence_


@pytest.mark.slow
def test_text_classes_and_rows_left_blank(here):
    words = np.where(people()["smoker"].to_numpy(), "yes", "no")
    table = people().select("height", answer=pl.Series(words))
    table.write_csv("t.csv")
    done = fit("t.csv", "--test", "t.csv", "--likelihood", "probit", target="answer")
    assert done.json["classes"] == ["no", "yes"]
    assert done.json["likelihood"] == "probit"
    assert list(done.json["test"]) == METRICS
    table.with_columns(height=pl.Series([None, *table["height"][1:]])).write_csv("t.csv")
    assert run("predict", "m.cavity", "t.csv", "--out", "p.csv", "--drop-missing").code == 0
    written = pl.read_csv("p.csv")
    assert written.row(0) == (None, None, None)
    assert set(written["label"][1:]) <= {"no", "yes"}


@pytest.mark.parametrize(
    "options",
    [
        ("--task", "classification"),
        pytest.param(("--likelihood", "logit"), marks=pytest.mark.slow),
    ],
)
def test_numbers_are_classes_on_request(here, options):
    table = people().select("height", code=pl.col("smoker").cast(pl.Int64) * 5 + 2)
    table.write_parquet("t.parquet")
    assert fit("t.parquet", *options, target="code").json["classes"] == ["2", "7"]
    run("predict", "m.cavity", "t.parquet", "--out", "p.parquet")
    written = pl.read_parquet("p.parquet")
    assert written.columns == ["label", "probability_2", "probability_7"]
    assert set(written["label"]) <= {2, 7}
