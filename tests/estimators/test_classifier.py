"""What a fitted classifier gives, for labels of any kind."""

import functools

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cavity
from tests.estimators.problem import problem

pytestmark = pytest.mark.x32

FAST = {"max_iterations": 0, "random_state": 0}  # the starting values are good enough here
NEW = problem(seed=9, rows=25)[0]


def classes(seed=0, rows=60, names=("no", "yes")):
    """Inputs (rows, 2) and labels (rows,) with a curved boundary between them."""
    X, y = problem(seed, rows)
    return X, np.array(names)[(y > 0.0).astype(int)]


@functools.cache
def fitted(**setting):
    """A classifier of these classes, for tests that only look at it."""
    return cavity.GPClassifier(**FAST | setting).fit(*classes())


LABELS = {
    "text": ("no", "yes"),
    "truth values": (False, True),
    "signs": (-1, 1),
    "numbers": (2.0, 7.0),
    "text out of order": ("b", "a"),
}


@pytest.mark.slow
@pytest.mark.parametrize("names", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("wrap", [np.asarray, list, pd.Series, pl.Series])
def test_labels_of_any_kind(names, wrap):
    X, y = classes(names=names)
    model = cavity.GPClassifier(**FAST).fit(X, wrap(y))
    np.testing.assert_array_equal(model.classes_, sorted(names))
    if wrap is not pd.Series:  # whose text is an object
        assert model.classes_.dtype.kind == y.dtype.kind
    assert model.predict(X).dtype == model.classes_.dtype
    assert model.score(X, wrap(y)) > 0.9
    chance = model.predict_proba(X)
    first = np.asarray(y) == model.classes_[0]
    assert np.mean(chance[first, 0]) > 0.7
    assert np.mean(chance[~first, 1]) > 0.7
    density = model.log_predictive_density(X, wrap(y))
    np.testing.assert_allclose(density, np.log(np.where(first, *chance.T)), rtol=1e-12)
    renamed = cavity.GPClassifier(**FAST).fit(X, np.where(first, "0", "1"))
    np.testing.assert_array_equal(renamed.predict_proba(X), chance)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("likelihood", "points"),
    [
        ("probit", None),
        ("logit", 8),
        pytest.param("probit", 8, marks=pytest.mark.slow),
        pytest.param("logit", None, marks=pytest.mark.slow),
    ],
)
def test_the_ways_to_predict_agree(likelihood, points):
    X, _ = classes()
    model = fitted(likelihood=likelihood, n_inducing=points)
    chance, log_chance = model.predict_proba(NEW), model.predict_log_proba(NEW)
    assert chance.shape == (25, 2)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(log_chance), chance, rtol=1e-14)
    odds = model.decision_function(NEW)
    np.testing.assert_allclose(odds, np.log(chance[:, 1] / chance[:, 0]), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[(odds > 0).astype(int)])
    latent, std = model.predict_latent(NEW, return_std=True)
    np.testing.assert_array_equal(latent > 0, odds > 0)
    _, cov = model.predict_latent(NEW, return_cov=True)
    np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=1e-6, atol=1e-9)
    if likelihood == "probit":
        from scipy.special import ndtr

        np.testing.assert_allclose(chance[:, 1], ndtr(latent / np.sqrt(1 + std**2)), rtol=1e-6)
    assert np.all(np.abs(odds) < np.abs(model.decision_function(X)).max() + 10)


def test_learning_is_worth_it():
    """And ends better than knowing the share of the classes only."""
    X, y = classes()
    test_X, test_y = classes(seed=1, rows=200)
    start = fitted()
    model = cavity.GPClassifier(random_state=0).fit(X, y)
    assert model.converged_
    assert model.log_evidence_ > start.log_evidence_ + 1.0
    assert model.score(test_X, test_y) > 0.9
    loss = -np.mean(model.log_predictive_density(test_X, test_y))
    assert loss == pytest.approx(log_loss(test_y, model.predict_proba(test_X)), rel=1e-9)
    assert loss < 0.25
    assert model.inducing_ is None
    assert model.sites_.sweeps > 0
    assert model.n_iter_ <= model.n_evaluations_


def test_far_from_the_data_the_classes_are_as_frequent_as_in_the_data():
    _, y = classes()
    model = fitted()
    share = np.mean(y == "yes")
    np.testing.assert_allclose(model.predict_proba(NEW + 1e6)[:, 1], share, atol=0.1)


def test_units_of_the_inputs_change_nothing():
    X, y = classes()
    plain = fitted()
    scaled = cavity.GPClassifier(**FAST).fit(X * [1e-4, 300.0] + [5.0, -1e3], y)
    found = scaled.predict_proba(NEW * [1e-4, 300.0] + [5.0, -1e3])
    np.testing.assert_allclose(found, plain.predict_proba(NEW), atol=1e-6)
    assert scaled.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-6)


@pytest.mark.slow
def test_the_power_matters_in_a_full_gp_too():
    """At equal parameters the evidence never decreases with the power; 0 is a bound."""
    X, y = classes()
    setting = {"kernel": cavity.kernels.RBF(4.0, [1.0, 1.0]), "mean": "zero", **FAST}
    evidence = [
        cavity.GPClassifier(power=power, **setting).fit(X, y).log_evidence_
        for power in (0.0, 0.5, 1.0)
    ]
    assert np.all(np.diff(evidence) > 0.0)


@pytest.mark.slow
def test_probabilities_near_one_keep_their_logarithm():
    X = np.linspace(-3, 3, 60)[:, None]
    kernel = cavity.kernels.Linear(100.0)
    model = cavity.GPClassifier(kernel=kernel, mean="zero", **FAST).fit(X, X[:, 0] > 0)
    found = model.predict_log_proba([[30.0], [-30.0]])
    assert np.all(np.isfinite(found))
    assert np.all(found < 0.0)
    assert model.predict([[3.0], [-3.0]]).tolist() == [True, False]


# --------------------------------------------------------------------- tools of scikit-learn


def test_clone_and_pipeline():
    X, y = classes()
    model = fitted(power=0.2)
    copy = clone(model)
    assert not hasattr(copy, "posterior_")
    np.testing.assert_array_equal(copy.fit(X, y).predict_proba(X), model.predict_proba(X))
    scaled = make_pipeline(StandardScaler(), clone(model)).fit(X * 1e3 + 7.0, y)
    np.testing.assert_allclose(
        scaled.predict_proba(X * 1e3 + 7.0), model.predict_proba(X), atol=1e-6
    )


@pytest.mark.slow
def test_grid_search_in_two_processes():
    X, y = classes()
    search = GridSearchCV(
        cavity.GPClassifier(**FAST),
        {"kernel": ["rbf", "white"]},
        scoring="neg_log_loss",
        cv=2,
        n_jobs=2,
    )
    assert search.fit(X, y).best_params_ == {"kernel": "rbf"}
    here = fitted()
    np.testing.assert_allclose(search.predict_proba(X), here.predict_proba(X), rtol=1e-8)


def test_data_frames():
    X, y = classes()
    expected = fitted().predict_proba(X)
    for library in (pd, pl):
        table = library.DataFrame({"height": X[:, 0], "weight": X[:, 1]})
        model = cavity.GPClassifier(**FAST).fit(table, library.Series(y))
        assert list(model.feature_names_in_) == ["height", "weight"]
        np.testing.assert_array_equal(model.predict_proba(table), expected)
        with pytest.raises(ValueError, match=r"(?i)feature names"):
            model.predict(table[["weight", "height"]])


def test_what_is_learned_is_numpy_float64_and_jax_stays_as_it_was():
    X, y = classes()
    before = dict(jax.config.values)
    model = cavity.GPClassifier(**FAST).fit(X, y)
    arrays = [a for a in jax.tree.leaves(model.posterior_) if hasattr(a, "dtype")]
    assert all(type(a) is np.ndarray and a.dtype == np.float64 for a in arrays)
    assert model.predict_proba(X).dtype == np.float64
    assert dict(jax.config.values) == before


# ------------------------------------------------------------------------------- bad input


@pytest.mark.slow
def test_ordered_classes_are_numbers():
    """Text would be taken in the order of the alphabet: fair, good, poor."""
    X = np.linspace(0.0, 1.0, 30)[:, None]
    model = cavity.GPClassifier(
        likelihood=cavity.likelihoods.OrdinalProbit([-0.5, 0.5]), max_iterations=0
    )
    with pytest.raises(ValueError, match=r"'fair', 'good', 'poor'.*give numbers, the lowest"):
        model.fit(X, np.repeat(["poor", "fair", "good"], 10))
    grades = np.repeat([1, 2, 3], 10)
    assert model.fit(X, grades).classes_.tolist() == [1, 2, 3]


X, Y = classes()
FITS = {
    "one class": (X, np.full(60, "yes"), "one class only, 'yes': classification needs rows of t"),
    "numbers": (X, X[:, 0], "(?i)unknown label type: continuous"),
    "mixed": (X, np.array(["a", 1] * 30, dtype=object), "different kinds.*int, str|Mix of"),
    "missing": (X, np.where(np.arange(60) == 4, np.nan, X[:, 0] > 0), "y contains NaN"),
    "a matrix": (X, np.stack([Y, Y], axis=1), "1d array|multi"),
    "lengths": (X, Y[:-1], r"inconsistent numbers of samples: \[60, 59\]"),
    "nan": (np.where(X[0] == X, np.nan, X), Y, "X contains NaN"),
}


@pytest.mark.parametrize(("inputs", "labels", "message"), FITS.values(), ids=FITS)
def test_data_that_cannot_be_fitted(inputs, labels, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        cavity.GPClassifier().fit(inputs, labels)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"likelihood": "gaussian"}, "'gaussian' is for regression: use GPRegressor"),
        ({"likelihood": cavity.likelihoods.StudentT()}, "StudentT is for regression: use GPRegr"),
        (
            {"likelihood": "probbit"},
            r"one of \['bernoulli', .*'softmax'\].*'probbit'",
        ),
        ({"method": "ep"}, r"method must be one of \['laplace', .*'tied'\], given 'ep'"),
        ({"power": 2}, r"power must lie in \[0, 1\]"),
        ({"n_inducing": 0}, "n_inducing must be .*at least 1, given 0"),
    ],
    ids=str,
)
def test_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        cavity.GPClassifier(**setting).fit(X, Y)


def test_labels_that_were_not_there_in_fitting():
    model = cavity.GPClassifier(**FAST).fit(X, Y)
    other = np.where(np.arange(60) < 2, "maybe", Y)
    for method in (model.log_predictive_density, model.score):
        with pytest.raises(
            ValueError, match=r"1 label .*\('maybe'\); the classes are 'no', 'yes'"
        ):
            method(X, other)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            method(X, Y[:-1])
    with pytest.raises(ValueError, match="2 labels that were not there"):
        model.score(X, (Y == "yes").astype(int))
