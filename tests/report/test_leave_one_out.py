"""Leave-one-out densities and site precisions on the page of the report."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import cavity
from cavity import likelihoods
from cavity.report import leave_one_out as single_rows
from cavity.report import targets
from cavity.report.sections import number
from cavity.report.subject import Subject
from cavity.tables.schema import encode
from tests.oracle import kernels as oracle
from tests.report.fitting import fitted_to
from tests.report.test_page import one_input, written  # noqa: F401
from tests.report.test_page_kinds import ripeness, with_outliers
from tests.tolerances import assert_close

SCALES = np.array([250.0, 0.004])


def scaled():
    """A model of two targets in divided units, and the table in its own."""
    table = one_input().with_columns(z=pl.Series(np.cos(np.linspace(0.0, 6.0, 40))))
    fitted, encoded = fitted_to(table, ["y", "z"])
    moments = {"y_mean": fitted.y_mean * SCALES, "y_var": fitted.y_var * SCALES**2}
    fitted = dataclasses.replace(fitted, output_scale=SCALES, **moments)
    return fitted, dataclasses.replace(encoded, y=encoded.y * SCALES)


def unit_rbf(X):
    return oracle.matrix(lambda x, z: oracle.rbf(x, z, 1.0, 1.0), X, X)


def left_out(K, y):
    """Rasmussen and Williams (2006), equations 5.10 to 5.12, of a zero mean."""
    inverse = np.linalg.inv(K)
    var = 1.0 / np.diag(inverse)
    return -0.5 * (np.log(2 * np.pi * var) + (inverse @ y) ** 2 * var)


def of_rows(fitted, encoded):
    inferred = single_rows.quick_inference_on(fitted, encoded)
    return single_rows.single_rows(fitted, *inferred)


@pytest.mark.slow
def test_the_means_on_the_page_are_those_of_the_closed_form(written):  # noqa: F811
    fitted, encoded = scaled()
    _, page = written(fitted, encoded)
    K = unit_rbf(encoded.X) + 0.1 * np.eye(40)
    found, _ = of_rows(fitted, encoded)
    for i, scale in enumerate(SCALES):
        expected = left_out(scale**2 * K, encoded.y[:, i])
        assert_close(found.densities[:, i], expected, "factorised")
        mean = number(float(np.mean(expected)))
        assert f"each row given the others of this table {mean} " in page.text
        predicted = number(-fitted.metrics(encoded)["per_target"]["yz"[i]]["nlpd"])
        assert f"the predictions above {predicted} " in page.text
        lowest = int(np.argmin(expected))
        row = f"{lowest + 1} {number(encoded.y[lowest, i])}"
        assert f"of the prediction {row} {number(float(expected[lowest]))}" in page.text


def test_each_target_stands_beside_its_own_predictions():
    subject = Subject(*scaled())
    for i in range(2):
        _, _, means, *_ = targets._left_out(subject, i)
        (_, alone), (_, predicted) = means.rows
        assert alone == np.mean(subject.single_rows[0].densities[:, i])
        assert predicted == np.mean(subject.log_densities[:, i])


@pytest.mark.slow
def test_an_outlier_has_next_to_no_say(written):  # noqa: F811
    robust = likelihoods.StudentT(scale=0.1, df=4.0)
    fitted, encoded = fitted_to(with_outliers(), ["y"], likelihood=robust)
    fitted.record["power"] = 1.0
    found, _ = of_rows(fitted, encoded)
    shares = found.precisions[:, 0]
    assert np.median(shares) == pytest.approx(1.0)
    assert np.flatnonzero(shares < 0.1).tolist() == [3, 20]
    _, page = written(fitted, encoded)
    assert "2 rows have a site precision below 0.1 of the median" in page.text
    rows = page.text.split("weight site precision")[1].split()
    assert rows[0] == "21"
    assert rows[8] == number(float(shares[20]), 2)


def test_classes_have_probabilities(written):  # noqa: F811
    fitted, encoded = fitted_to(ripeness(), ["y"], likelihood=likelihoods.Bernoulli())
    _, page = written(fitted, encoded)
    assert "Leave-one-out probabilities" in page.text
    expected = cavity.infer(fitted.posterior.model, encoded.X, encoded.y[:, 0]).leave_one_out()
    mean = number(float(expected.mean()))
    assert f"each row given the others of this table {mean} " in page.text
    predicted = number(-fitted.metrics(encoded)["nlpp"])
    assert f"the predictions above {predicted} " in page.text


def test_known_noise():
    table = one_input().with_columns(v=pl.Series(np.linspace(0.01, 0.5, 40)))
    fitted, encoded = fitted_to(table, ["y"], noise_column="v")
    K = unit_rbf(encoded.X) + np.diag(encoded.noise)
    found, _ = of_rows(fitted, encoded)
    assert_close(found.densities[:, 0], left_out(K, encoded.y[:, 0]), "factorised")
    assert found.precisions is None


def test_where_there_are_none_the_page_says_why(written, monkeypatch):  # noqa: F811
    fitted, encoded = fitted_to(one_input(), ["y"])
    none, said = of_rows(fitted, encode(one_input().head(1), fitted.schema))
    assert none is None
    assert said == "There are no leave-one-out densities: they need a table of at least two rows."
    monkeypatch.setattr(single_rows, "MOST_FULL", 39)
    _, said = of_rows(fitted, encoded)
    assert said.endswith("for up to 39 rows of a full Gaussian process, and there are 40.")
    draws = {"chains": 2, "draws": 5, "divergences": 0, "parameters": [], "rhat": 1.0, "ess": 9.0}
    fitted.record["mcmc"] = draws
    _, page = written(fitted, encoded)
    assert "There are no leave-one-out densities: the posterior was" in page.text
    assert "drawn from, and draws have no sites to leave out." in page.text
    assert "Leave-one-out densities" not in page.text


@pytest.mark.slow
def test_several_functions_count_as_so_many_rows(monkeypatch):
    robust = likelihoods.StudentT(scale=0.1, df=4.0)
    table = one_input().with_columns(z=pl.col("y"))
    fitted, encoded = fitted_to(table, ["y", "z"], n_inducing=5, likelihood=robust)
    monkeypatch.setattr(single_rows, "MOST_SWEPT_SPARSE", 79)
    said = "up to 39 rows of a model with inducing points with 2 functions, and there are 40."
    assert of_rows(fitted, encoded)[1].endswith(said)


def test_rows_without_a_proper_posterior_are_counted():
    densities = np.array([-3.0, np.nan, -1.0])
    found = single_rows.left_out_rows(densities, np.zeros(3), [1.0, 2.0, 3.0], [1, 2, 3])
    assert found.mean == -2.0
    assert [row.row for row in found.rows] == [1, 3]
    assert "1 row of 3 left no proper posterior behind" in found.text
    nothing = single_rows.left_out_rows(densities[1:2], np.zeros(1), [2.0], [2])
    assert np.isnan(nothing.mean)
    assert not nothing.rows


def test_precisions_have_no_scale_without_a_typical_row():
    assert single_rows.relative(np.array([[-1.0], [-2.0], [3.0]])) is None
    assert single_rows.relative(np.array([[np.nan], [2.0], [3.0]]))[2, 0] == pytest.approx(1.2)
