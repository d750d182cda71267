"""Linear estimators: coefficients in units of the data, selection, misuse."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity import weights
from cavity.estimators.blocks import feature_groups


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    w = np.zeros(60)
    w[:3] = 1.0, -1.0, 0.6
    return X, X @ w + 0.3 * rng.standard_normal(40) + 2.0, w


@pytest.fixture(scope="module")
def fitted(table):
    X, y, _ = table
    return cavity.LinearRegressor().fit(X, y)


def test_coefficients_of_a_sparse_truth(table, fitted):
    X, y, w = table
    assert fitted.converged_
    np.testing.assert_allclose(fitted.coef_, w, atol=0.25)
    assert sorted(fitted.select(0.1)[:3]) == [0, 1, 2]
    assert np.all(fitted.inclusion_probability_[:3] > 0.9)
    assert np.mean(fitted.inclusion_probability_[3:]) < 0.1
    assert abs(fitted.intercept_ - 2.0) < 0.3
    low, high = fitted.coef_interval_[:3].T
    assert np.all((low < fitted.coef_[:3]) & (fitted.coef_[:3] < high))
    np.testing.assert_allclose(fitted.predict(X), X @ fitted.coef_ + fitted.intercept_)
    assert fitted.score(X, y) > 0.9


def test_units_change_nothing_but_units(table, fitted):
    X, y, _ = table
    other: Any = cavity.LinearRegressor().fit(1000.0 * X + 5.0, 0.01 * y)
    np.testing.assert_allclose(other.coef_, 1e-5 * fitted.coef_, rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(
        other.inclusion_probability_, fitted.inclusion_probability_, atol=1e-3
    )
    shift = len(y) * np.log(0.01)
    assert abs(other.log_evidence_ + shift - fitted.log_evidence_) < 0.01


@pytest.mark.slow
def test_two_classes_and_three(table):
    X, y, w = table
    two = cavity.LinearClassifier(prior="laplace").fit(X[:, :5], np.where(y > 2.0, "up", "down"))
    assert two.coef_.shape == (5,)
    rng = np.random.default_rng(1)
    new = rng.standard_normal((2000, 5))
    labels = np.where(new @ w[:5] + 0.3 * rng.standard_normal(2000) > 0.0, "up", "down")
    assert two.score(new, labels) > 0.9
    labels = np.digitize(y, [1.0, 3.0])
    three = cavity.LinearClassifier(prior="gaussian").fit(X[:, :5], labels)
    assert three.coef_.shape == (3, 5)
    assert three.predict_proba(X[:, :5]).shape == (40, 3)
    assert three.score(X[:, :5], labels) > 0.7


def test_several_outputs(table):
    X, y, _ = table
    both = np.column_stack([y, -2.0 * y])
    found = cavity.LinearRegressor(prior="gaussian").fit(X[:, :5], both)
    assert found.coef_.shape == (2, 5)
    np.testing.assert_allclose(found.coef_[1], -2.0 * found.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(
        found.predict(X[:, :5]), X[:, :5] @ found.coef_.T + found.intercept_, rtol=1e-6
    )


def test_intervals_of_other_probabilities(table):
    """Under a Gaussian prior coefficients are normal: the widths are those of its quantiles."""
    X, y, _ = table
    settings: Any = {"prior": "gaussian", "integrate": None, "max_iterations": 0}
    found = cavity.LinearRegressor(**settings).fit(X[:, :5], y)
    usual, half = found.coefficient_table(), found.coefficient_table(level=0.5)
    np.testing.assert_allclose(usual["lower"], found.coef_interval_[:, 0])
    width, usual_width = (t["upper"] - t["lower"] for t in (half, usual))
    np.testing.assert_allclose(width, usual_width * norm.ppf(0.75) / norm.ppf(0.95), rtol=1e-6)
    with pytest.raises(ValueError, match="level"):
        found.coefficient_table(level=1.5)


@pytest.mark.slow
def test_awkward_tables_work(table):
    X, y, _ = table
    constant, twin = X[:, :6].copy(), X[:, :6].copy()
    constant[:, 1], twin[:, 5] = 3.0, twin[:, 0]
    for inputs, outputs in [
        (constant, y),
        (twin, y),
        (X[:, :6], np.full(40, 2.0)),
        (X[:, :6] * np.logspace(-6, 6, 6), y),
    ]:
        found = cavity.LinearRegressor(prior="laplace").fit(inputs, outputs)
        assert found.converged_ or np.ptp(outputs) == 0.0
        mean, deviation = found.predict(inputs, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(deviation >= 0.0)


@pytest.mark.slow
def test_misuse_says_what_to_do(table):
    X, y, _ = table
    with pytest.raises(ValueError, match="prior"):
        cavity.LinearRegressor(prior="lasso").fit(X, y)
    with pytest.raises(ValueError, match="groups"):
        cavity.LinearRegressor(groups=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        cavity.LinearRegressor().fit(np.where(X > 2, np.nan, X), y)
    with pytest.raises(ValueError, match="GPRegressor"):
        cavity.LinearRegressor(likelihood="heteroscedastic").fit(X, y)
    grouped = cavity.LinearRegressor(groups=[0, 1] * 30, max_iterations=0).fit(X, y)
    assert grouped.prior_.share.shape == (2,)
    own = cavity.LinearRegressor(prior=weights.Laplace(0.2), max_iterations=0).fit(X, y)
    assert float(own.prior_.scale) == 0.2


def categorical(library, n=40) -> Any:
    """A frame with a number that matters, one that does not, and a category that does."""
    rng = np.random.default_rng(2)
    kind = rng.choice(["a", "b", "c"], n)
    frame = {"x": rng.standard_normal(n), "kind": kind, "z": rng.standard_normal(n)}
    y = frame["x"] + 2.0 * (kind == "b") + 0.2 * rng.standard_normal(n)
    if library == "pandas":
        table = pd.DataFrame(frame).astype({"kind": "category"})
    else:
        table = pl.DataFrame(frame).with_columns(pl.col("kind").cast(pl.Categorical))
    return table, y


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_one_category_are_a_group(library):
    X, y = categorical(library)
    found: Any = cavity.LinearRegressor(prior="gaussian").fit(X, y)
    names = ["x", "kind=a", "kind=b", "kind=c", "z"]
    assert found.feature_names_in_.tolist() == names
    hot = np.column_stack([X["x"], *(np.asarray(X["kind"]) == k for k in "abc"), X["z"]])
    own: Any = cavity.LinearRegressor(prior="gaussian", groups=[0, 1, 1, 1, 0]).fit(hot, y)
    np.testing.assert_allclose(found.coef_, own.coef_)
    np.testing.assert_allclose(found.predict(X[:5]), own.predict(hot[:5]))
    assert found.prior_.variance.shape == (2,)
    table = found.coefficient_table()
    assert table["column"].tolist() == names
    np.testing.assert_array_equal(table["mean"], found.coef_)
    assert set(found.select(0.1)) == set(np.flatnonzero(table["selected"]))


def test_a_selected_set_has_few_errors_on_average():
    """The last of it alone may be less certain than that."""
    positive = np.array([0.7, 0.99, 0.02, 0.85])
    negative = np.array([0.2, 0.01, 0.95, 0.1])
    numbers = np.zeros(4)
    of_signs = (negative, positive, None, None)
    found = cavity.diagnostics.Coefficients(numbers, numbers, numbers, numbers, *of_signs)
    # errors 0.01, 0.05, 0.15 and 0.3, the means of the first 0.01, 0.03, 0.07 and 0.1275
    assert found.select(0.1).tolist() == [1, 2, 3]
    assert found.select(0.05).tolist() == [1, 2]
    assert found.select(0.005).tolist() == []


def test_groups_of_categories_by_prior():
    assert feature_groups([1, 1, 1], "laplace") is None
    for widths, prior, groups in [
        ([3, 1, 2, 1], "laplace", [1, 1, 1, 0, 2, 2, 0]),
        ([3, 1, 2, 1], "ard", [0, 0, 0, 1, 2, 2, 3]),
        ([3], "laplace", [0, 0, 0]),
    ]:
        found = feature_groups(widths, prior)
        assert found is not None
        assert found.tolist() == groups
    assert feature_groups([3, 1], weights.Laplace(0.2)) is None


@pytest.mark.slow
def test_misuse_of_categories_says_what_to_do():
    X, y = categorical("pandas")
    found = cavity.LinearRegressor(prior="gaussian", max_iterations=0).fit(X, y)
    with pytest.warns(UserWarning, match="not there in fitting"):
        found.predict(X.astype({"kind": str}).assign(kind="d"))
    with pytest.raises(ValueError, match=r"'kind', row 0 .* the cell is missing"):
        found.predict(X.assign(kind=None))
    with pytest.raises(ValueError, match="give a data frame"):
        found.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="3 columns"):
        cavity.LinearRegressor(groups=[0, 1]).fit(X, y)
    grouped = cavity.LinearRegressor(groups=[0, 1, 0], max_iterations=0).fit(X, y)
    assert grouped.prior_.share.shape == (2,)


@pytest.mark.slow
def test_table_of_coefficients_of_classes_and_outputs():
    X, y = categorical("pandas")
    two = cavity.LinearRegressor(prior="gaussian", max_iterations=0).fit(
        X[["x", "z"]], np.column_stack([y, 2.0 * y])
    )
    table = two.coefficient_table()
    assert table["output"].tolist() == ["0", "0", "1", "1"]
    np.testing.assert_array_equal(table["mean"], two.coef_.ravel())
    three = cavity.LinearClassifier(prior="gaussian", max_iterations=0).fit(
        X[["x", "z"]], np.digitize(y, [0.0, 2.0])
    )
    assert three.coefficient_table()["class"].tolist() == ["0", "0", "1", "1", "2", "2"]
    with pytest.raises(ValueError, match="fdr"):
        three.coefficient_table(fdr=0.0)


@pytest.mark.slow
def test_a_sparse_prior_of_columns_that_all_take_part():
    # sites do not settle under a prior by which few coefficients are not small
    X, y = load_diabetes(return_X_y=True)
    model = cavity.LinearRegressor(prior="spike_slab").fit(X[:, 4:], y)
    assert model.converged_
    A, labels = load_breast_cancer(return_X_y=True)
    classes = cavity.LinearClassifier(prior="horseshoe").fit(A[:150, :10], labels[:150])
    assert classes.converged_
    assert classes.score(A[150:, :10], labels[150:]) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_one_category_are_a_block(library):
    """By the word, by name and by number: they are zero together or not at all."""
    X, y = categorical(library)
    found: Any = cavity.LinearRegressor(blocks="columns").fit(X, y)
    assert found.posterior_.model.blocks == ((1, 2, 3),)
    assert found.prior_.share.shape == ()
    inclusion = found.inclusion_probability_
    np.testing.assert_allclose(inclusion[1:4], inclusion[1])
    assert inclusion[1] > 0.9 > inclusion[4]
    named: Any = cavity.LinearRegressor(blocks=[["kind"], ["x", 2]], max_iterations=0).fit(X, y)
    assert named.posterior_.model.blocks == ((1, 2, 3), (0, 4))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("prior", ["horseshoe", "student_t", "gaussian", "ard"])
def test_priors_of_blocks_by_name(table, prior):
    X, y, _ = table
    settings: Any = {"prior": prior, "max_iterations": 0}
    found: Any = cavity.LinearRegressor(blocks=np.arange(6).reshape(2, 3), **settings)
    found = found.fit(X[:, :8], y)
    assert found.posterior_.model.blocks == ((0, 1, 2), (3, 4, 5))
    if prior == "ard":
        assert found.prior_.variance.shape == (4,)
    again: Any = clone(found).fit(X[:, :8], y)
    np.testing.assert_array_equal(again.coef_, found.coef_)


def test_misuse_of_blocks_says_what_to_do(table):
    X, y, _ = table
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    wrong: list[tuple[Any, str]] = [
        ({"blocks": "rows"}, "given 'rows'"),
        ({"blocks": "columns"}, "of which there are none"),
        ({"blocks": [["a", "d"]]}, "known are a, b, c"),
        ({"blocks": [[0, 3]]}, "columns 0 to 2"),
        ({"blocks": ["ab"]}, "must be a list of columns"),
        ({"blocks": [["a", 0]]}, "in one twice"),
        ({"blocks": [["a", "b"]], "groups": [0, 0, 1]}, "leave groups=None"),
        ({"blocks": [["a", "b"]], "prior": "laplace"}, "scale mixture"),
    ]
    for settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            cavity.LinearRegressor(**settings).fit(frame, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_groups_in_a_table_of_more_than_five_hundred_rows():
    """Beyond so many rows learning asks which parameters are locations."""
    X = np.random.default_rng(0).normal(size=(501, 2))
    model = cavity.LinearRegressor(prior="gaussian", groups=[0, 1], max_iterations=2)
    model.fit(X, X[:, 0])
    np.testing.assert_allclose(model.coef_, [1.0, 0.0], atol=1e-2)


@pytest.mark.slow
def test_noise_and_prior_that_are_uncertain(table):
    """A design of five numbers, under wide priors about the values to start from."""
    X, y, _ = table
    fitted = cavity.LinearRegressor("ard").fit(X[:, :4], y)
    assert fitted.converged_
    found = fitted.integrated_parameters_
    assert set(found) == {"prior.variance", "likelihood.variance"}
    assert found["prior.variance"].median.shape == (4,)
    noise = found["likelihood.variance"]
    assert noise.lower < 0.09 < noise.upper
    alone = cavity.LinearRegressor("ard", integrate=None).fit(X[:, :4], y)
    assert alone.integrated_parameters_ == {}
    np.testing.assert_allclose(fitted.coef_, alone.coef_, atol=0.1)
    assert np.all(np.diff(fitted.coef_interval_[:3]) > np.diff(alone.coef_interval_[:3]))


@pytest.mark.slow
def test_parameters_of_many_columns_are_learned_and_the_noise_averaged_over(table):
    X, y, _ = table
    fitted = cavity.LinearRegressor("ard").fit(X[:, :12], y)
    assert set(fitted.integrated_parameters_) == {"likelihood.variance"}
    assert fitted.message_.startswith("averaged over likelihood.variance: a grid")


@pytest.mark.slow
def test_averages_of_what_did_not_converge_say_so(table):
    X, y, _ = table
    with pytest.warns(ConvergenceWarning, match="stopped at the limit of 1 iteration"):
        fitted = cavity.LinearRegressor(max_iterations=1).fit(X[:, :5], y)
    assert not fitted.converged_
    assert "averaged over" in fitted.message_


@pytest.mark.slow
def test_blocks_are_averaged_over_shares(table):
    X, y, _ = table
    fitted = cavity.LinearRegressor(blocks=[[0, 1], [5, 6]]).fit(X[:, :8], y)
    first, second, *_, sixth, seventh, _ = fitted.inclusion_probability_
    assert first == pytest.approx(second)
    assert sixth == pytest.approx(seventh)
    assert first > 0.99 > 0.6 > sixth
    assert "prior.share" in fitted.integrated_parameters_


def test_noise_alone_says_that_no_column_is_told_from_another():
    """Inclusion is near the share of columns, and selecting by it warns."""
    random = np.random.default_rng(3)
    X = random.standard_normal((12, 4))
    y = np.linalg.svd(np.c_[np.ones(12), X])[0][:, 6]  # of which no column says anything
    fitted = cavity.LinearRegressor().fit(X, y)
    with pytest.warns(UserWarning, match="mostly come from the prior"):
        assert len(fitted.select(0.1)) == 0
    with pytest.warns(UserWarning, match="mostly come from the prior"):
        fitted.coefficient_table()
    grouped = cavity.LinearRegressor(groups=[0, 0, 1, 1]).fit(X, y)
    with pytest.warns(UserWarning, match="which is about 0.[0-9]+ to 0.[0-9]+, and mostly"):
        grouped.select(0.1)
    clear = cavity.LinearRegressor().fit(X, X[:, 0] + 0.1 * y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clear.select(0.1).tolist() == [0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("integrate", "message"),
    [
        ("share", "integrate must be one of"),
        (2, "'all', 'none', 'noise', 'prior' or both"),
        (["noise", "prior", 1], "integrate must be one of"),
    ],
)
def test_what_cannot_be_integrated_out(table, integrate, message):
    X, y, _ = table
    with pytest.raises(ValueError, match=message):
        cavity.LinearRegressor(integrate=integrate).fit(X, y)


def test_labels_have_no_noise_to_integrate_out(table):
    X, y, _ = table
    with pytest.raises(ValueError, match="leave 'noise' out of integrate"):
        cavity.LinearClassifier(integrate="noise").fit(X, y > 2.0)
