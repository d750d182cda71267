"""Weights of rows and classes in estimators: the same fit as from copies of the rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

import cavity
from cavity.learning.data.row_weights import quantile

RANDOM = np.random.default_rng(5)
X = RANDOM.uniform(-2.0, 2.0, (24, 2))
# outputs of equal inputs differ, so that copies do not say that there is no noise
X[12:] = X[:12]
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RANDOM.normal(size=24)
LABELS = np.where(Y > 0.2, "up", "down")
WEIGHTS = np.array([1, 2, 0, 3, 1, 1] * 4, float)
COPIES = np.repeat(np.arange(24), WEIGHTS.astype(int))
STILL = [
    cavity.GPRegressor(max_iterations=0),
    cavity.GPRegressor("periodic * rbf + linear", max_iterations=0),
    cavity.GPRegressor(likelihood="student_t", max_iterations=0),
    cavity.GPRegressor(n_inducing=5, max_iterations=0),
    cavity.GPClassifier(max_iterations=0),
    cavity.LinearRegressor(max_iterations=0),
    cavity.LinearClassifier(max_iterations=0),
    cavity.NetworkRegressor(hidden=2, max_iterations=0),
]


@pytest.mark.parametrize("estimator", STILL, ids=str)
def test_starting_values_are_those_of_copies(estimator):
    """scikit-learn's own check, to 1e-7: weights 0 to 4 against rows removed and repeated."""
    check_sample_weight_equivalence_on_dense_data(type(estimator).__name__, estimator)


def test_a_search_ends_where_that_of_copies_does():
    settings = {"random_state": 0, "tolerance": 1e-7}
    weighted = cavity.GPRegressor(**settings).fit(X, Y, sample_weight=WEIGHTS)
    copied = cavity.GPRegressor(**settings).fit(X[COPIES], Y[COPIES])
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), atol=1e-3)
    assert weighted.log_evidence_ == pytest.approx(copied.log_evidence_, abs=1e-3)
    assert weighted.n_rows_ == 20
    assert weighted.n_observed_ == WEIGHTS.sum()


def test_a_linear_mean_starts_as_with_copies():
    still = {"mean": "linear", "max_iterations": 0}
    weighted = cavity.GPRegressor(**still).fit(X, Y, sample_weight=WEIGHTS)
    copied = cavity.GPRegressor(**still).fit(X[COPIES], Y[COPIES])
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), rtol=1e-7)


def test_rows_of_weight_zero_are_dropped_before_anything():
    """Their categories and ranges are not those of the fit, and a missing cell does not matter."""
    table = pd.DataFrame({"x": X[:, 0], "colour": np.where(WEIGHTS == 0.0, "none", "red")})
    table.loc[0, "colour"] = "blue"
    table.loc[WEIGHTS == 0.0, "x"] = 1e6
    fitted = cavity.GPRegressor(max_iterations=0).fit(table, Y, sample_weight=WEIGHTS)
    assert list(fitted.feature_names_in_) == ["x", "colour=blue", "colour=red"]
    assert fitted.rows_of_fit_.ranges["x"].high < 3.0
    missing = np.where(WEIGHTS == 0.0, np.nan, Y)
    same = cavity.GPRegressor(max_iterations=0).fit(table, missing, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(fitted.predict(table[3:6]), same.predict(table[3:6]))


def test_weights_of_one_are_none():
    still = cavity.GPRegressor(max_iterations=0)
    plain = still.fit(X, Y).predict(X)
    np.testing.assert_array_equal(still.fit(X, Y, sample_weight=np.ones(24)).predict(X), plain)


def test_weights_of_classes_are_those_of_their_rows():
    still = {"max_iterations": 0}
    balanced = cavity.GPClassifier(class_weight="balanced", **still).fit(X, LABELS)
    share = np.mean(LABELS == "up")
    each = np.where(LABELS == "up", 0.5 / share, 0.5 / (1.0 - share))
    weighted = cavity.GPClassifier(**still).fit(X, LABELS, sample_weight=each)
    np.testing.assert_allclose(balanced.predict_proba(X), weighted.predict_proba(X), rtol=1e-12)
    named = cavity.GPClassifier(class_weight={"up": 2.0}, **still)
    named.fit(X, LABELS, sample_weight=WEIGHTS)
    both = WEIGHTS * np.where(LABELS == "up", 2.0, 1.0)
    other = cavity.GPClassifier(**still).fit(X, LABELS, sample_weight=both)
    np.testing.assert_array_equal(named.predict_proba(X), other.predict_proba(X))


def test_streams_and_left_out_rows_take_weights():
    stream = cavity.GPRegressor(n_inducing=8, max_iterations=0, random_state=0)
    stream.partial_fit(X[:12], Y[:12], sample_weight=WEIGHTS[:12])
    stream.partial_fit(X[12:], Y[12:], sample_weight=WEIGHTS[12:])
    assert stream.n_observed_ == WEIGHTS.sum()
    densities = cavity.GPRegressor(max_iterations=0).fit(X, Y, sample_weight=WEIGHTS)
    found = densities.leave_one_out(X, Y, sample_weight=WEIGHTS)
    assert np.array_equal(np.isnan(found), WEIGHTS == 0.0)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.where(np.arange(24) == 3, -2.0, 1.0), r"at least 0 .* row 3 .* has -2"),
        (np.where(np.arange(24) == 3, np.nan, 1.0), "at least 0 and finite"),
        (np.zeros(24), "every weight is zero"),
        (np.ones(5), "shape"),
        (["many"] * 24, "sample_weight must be numbers"),
    ],
    ids=["negative", "nan", "zero", "short", "text"],
)
def test_impossible_weights_are_refused(weights, said):
    with pytest.raises(ValueError, match=said):
        cavity.GPRegressor(max_iterations=0).fit(X, Y, sample_weight=weights)
    still = cavity.GPRegressor(max_iterations=0).fit(X, Y)
    with pytest.raises(ValueError, match=said):
        still.score(X, Y, sample_weight=weights)


def test_a_power_is_chosen_by_weighted_rows():
    settings = {"power": "auto", "n_inducing": 5, "max_iterations": 0, "random_state": 0}
    model = cavity.GPRegressor(**settings).fit(X, Y, sample_weight=WEIGHTS)
    assert {trial.power for trial in model.power_table_} == {0.0, 0.5, 1.0}


@pytest.mark.parametrize(
    ("class_weight", "said"),
    [
        ({"left": 2.0}, "no label of y; the labels are 'down', 'up'"),
        ({"up": -1.0}, "at least 0 and finite"),
        ("even", 'None, "balanced" or a dict'),
    ],
    ids=["unknown", "negative", "word"],
)
def test_impossible_weights_of_classes_are_refused(class_weight, said):
    with pytest.raises(ValueError, match=said):
        cavity.GPClassifier(class_weight=class_weight).fit(X, LABELS)


def test_quantiles_of_whole_weights_are_those_of_copies():
    for share in (0.0, 0.25, 0.5, 0.9, 1.0):
        copied = np.quantile(X[COPIES], share, axis=0)
        np.testing.assert_allclose(quantile(X, share, WEIGHTS), copied, rtol=1e-12)
