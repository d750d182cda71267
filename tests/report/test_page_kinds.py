"""Reports on classes and on models that bear outliers."""

import base64
import re

import numpy as np
import polars as pl
import pytest
from scipy import stats

import cavity
from cavity import likelihoods
from cavity.likelihoods import Support
from cavity.likelihoods.predictive.numerical import numerical_predictive
from cavity.report import page as report
from cavity.report.metric_descriptions import CLASSIFICATION
from cavity.report.outcomes import Outcome
from cavity.report.outliers import outliers
from cavity.report.sections import number
from cavity.tables.schema import encode
from tests.report.fitting import fitted_to
from tests.report.test_page import browse, one_input, several_inputs, written  # noqa: F401

QUALITY = ["reliability", "confusion", "roc"]
BERNOULLI = likelihoods.Bernoulli()


def ripeness(count=40):
    """One number and two classes of it."""
    table = one_input(count)
    return table.with_columns(
        y=pl.when(table["y"] > 0).then(pl.lit("ripe")).otherwise(pl.lit("no"))
    )


@pytest.mark.slow
def test_classes_of_one_input(written):  # noqa: F811
    fitted, encoded = fitted_to(ripeness(), ["y"], n_inducing=7, likelihood=BERNOULLI)
    names, page = written(fitted, encoded)
    assert names == ["fit", *QUALITY, "point_gains"]
    assert "Gaussian process classification" in page.text
    assert "2 classes: no" in page.text
    for name, value in fitted.metrics(encoded).items():
        assert f"{name} {number(value)} {CLASSIFICATION[name]}" in page.text
    assert "The probability of ripe with the bands" in page.text
    assert "A point at 1 is a row that is ripe, at 0 one that is no." in page.text
    assert "kernel.variance 1 function²" in page.text
    assert "log probability of the training targets, priors" in page.text
    assert "power 0.5 (0 is variational" in page.text


@pytest.mark.slow
def test_classes_of_several_inputs(written, rng):  # noqa: F811
    table = several_inputs(rng)
    table = table.with_columns(y=table["y"] > 0.5).drop("z")
    names, page = written(*fitted_to(table, ["y"], likelihood=BERNOULLI))
    assert names == [*QUALITY, "slices", "relevance"]
    assert "The probability of true along each of" in " ".join(i["alt"] for i in page.all("img"))
    assert "power 0.5 (0 is variational" in page.text  # it matters in a full GP of classes


@pytest.mark.slow
def test_classes_without_their_target(written):  # noqa: F811
    table = ripeness()
    fitted, _ = fitted_to(table, ["y"], likelihood=BERNOULLI)
    names, page = written(fitted, encode(table.drop("y"), fitted.schema, need_targets=False))
    assert names == ["fit"]
    assert "read without targets" in page.text


def test_few_rows_of_one_class(written):  # noqa: F811
    fitted, _ = fitted_to(ripeness(), ["y"], likelihood=BERNOULLI)
    some = ripeness().filter(pl.col("y") == "ripe").head(5)
    names, page = written(fitted, encode(some, fitted.schema))
    assert names == ["fit", "confusion"]
    assert "Reliability is not drawn for fewer than 10 rows" in page.text
    assert "no ROC curve, because the rows of this table are all of one class" in page.text
    assert "(undefined: the targets are all of one class)" in page.text


def with_outliers():
    table = one_input()
    y = table["y"].to_numpy().copy()
    y[[3, 20]] += [9.0, -30.0]
    return table.with_columns(y=y)


@pytest.mark.slow
def test_outlying_rows(written):  # noqa: F811
    robust = likelihoods.StudentT(scale=0.1, df=4.0)
    names, page = written(*fitted_to(with_outliers(), ["y"], likelihood=robust))
    assert names == ["fit", "calibration", "predicted_against_observed", "residuals"]
    assert "Outlying rows" in page.text
    assert "2 of 40 rows lie further from the predicted mean than √df" in page.text
    rows = page.text.split("tail probability weight site precision")[1].split()
    assert rows[0] == "21"  # counted from 1, the strangest first
    assert "the standard normal deviate that has the same predicted probability" in page.text


def dated(table):
    """The table with days from 2020-12-30 on for its first column."""
    return table.with_columns(
        x=pl.date_range(pl.date(2020, 12, 30), pl.date(2021, 2, 7), eager=True)
    )


@pytest.mark.slow
def test_dates_are_shown_as_dates(written):  # noqa: F811
    robust = likelihoods.StudentT(scale=0.1, df=4.0)
    _, page = written(*fitted_to(dated(with_outliers()), ["y"], likelihood=robust))
    summary = "x input date 2020-12-30 2021-01-18 2021-02-07 used as days since 2020-12-30"
    assert summary in page.text
    assert "kernel.lengthscale x 1 days" in page.text
    rows = page.text.split("tail probability weight site precision")[1].split()
    assert rows[:2] == ["21", "2021-01-19"]
    pictures = [base64.b64decode(i["src"].split(",")[1]).decode() for i in page.all("img")]
    assert re.search(r">2021(-Feb)?<", pictures[0])  # the whole fit


def test_dates_among_other_columns(written):  # noqa: F811
    table = dated(one_input()).with_columns(c=pl.Series(["a", "b"] * 20))
    _, page = written(*fitted_to(table, ["y"]))
    assert "along each of: x" in " ".join(i["alt"] for i in page.all("img"))
    assert "kernel.lengthscale x 1 days" in page.text


@pytest.mark.slow
def test_no_outlying_rows(written):  # noqa: F811
    _, page = written(*fitted_to(one_input(), ["y"], likelihood=likelihoods.Laplace(0.3)))
    assert "So there is no row to show." in page.text


def test_rows_let_go_are_those_with_negative_sites():
    """What the page says from predictions is what inference found at its sites."""
    table = with_outliers()
    X, y = table["x"].to_numpy()[:, None], table["y"].to_numpy()
    model = cavity.GP(cavity.kernels.RBF(1.0, [1.0]), likelihoods.StudentT(0.1, 4.0))
    result = cavity.infer(model, X, y)
    precision = np.asarray(result.found[0][0].precision).ravel()[:40]
    mean = np.asarray(result.posterior.predict(X).mean)
    far = (y - mean) ** 2 > 4.0 * 0.1**2
    assert set(np.flatnonzero(far)) == {3, 20}
    assert set(np.flatnonzero(precision < 0.05 * np.median(precision))) == {3, 20}


def test_the_table_of_outliers():
    law = stats.t(3.0, 1.0, 2.0)
    observed = np.array([1.0, 60.0, -80.0, 2.0])
    table = numerical_predictive(lambda y: law.logpdf(y), Support.REAL, np.ones(4))
    where = Outcome(
        observed, np.ones(4), np.ones(4), np.zeros((4, 4)), np.array([1, 2, 7, 9]), table
    )
    found = outliers(likelihoods.StudentT(1.0, 3.0), 2.0, where)
    assert [row.row for row in found.rows] == [7, 2]
    assert found.rows[0].tail == pytest.approx(2 * law.cdf(-80.0), rel=0.02)
    assert found.rows[0].weight == pytest.approx(3.0 / (3.0 + 40.5**2))
    assert found.rows[0].low == pytest.approx(law.ppf(0.025), rel=0.01)
    assert outliers(likelihoods.Gaussian(), 2.0, where) is None
    assert outliers(likelihoods.Laplace(1.0), 2.0, where).rows[0].weight is None


@pytest.mark.slow
@pytest.mark.browser
def test_a_browser_shows_every_picture(tmp_path, browse):  # noqa: F811
    for name, target, likelihood in (
        ("classes", ripeness(), BERNOULLI),
        ("outliers", with_outliers(), likelihoods.Laplace(0.1)),
    ):
        path = tmp_path / f"{name}.html"
        report.write_report(path, *fitted_to(target, ["y"], likelihood=likelihood))
        dom, log = browse(path)
        assert not log
        assert "Report on y" in dom
