"""Estimators that go on learning."""

import numpy as np
import pytest

import cavity
from cavity.models.remembered import with_points_at_rows
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(1)
X = RANDOM.uniform(-3.0, 3.0, (90, 1))
Y = 10.0 + 5.0 * np.sin(X[:, 0]) + 0.5 * RANDOM.normal(size=90)
LABELS = np.where(Y > 10.0, "high", "low")
PARTS = (slice(0, 30), slice(30, 60), slice(60, 90))
SETTINGS = {"n_inducing": 12, "max_iterations": 30, "random_state": 0}
CALLED = pytest.mark.filterwarnings("ignore:not converged")


@pytest.mark.slow
@CALLED
def test_a_regression_goes_on():
    model = cavity.GPRegressor(**SETTINGS)
    for part in PARTS:
        model.partial_fit(X[part], Y[part])
    assert model.n_rows_ == 90
    assert model.inducing_.size <= 12
    whole = cavity.GPRegressor(**SETTINGS).fit(X, Y)
    assert abs(model.log_evidence_ - whole.log_evidence_) < 5.0
    assert np.max(np.abs(model.predict(X) - whole.predict(X))) < 1.0
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X[:2], [1.0, np.nan])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.ones((3, 2)), np.ones(3))


@pytest.mark.slow
@CALLED
def test_classes_are_named_in_the_first_call():
    model = cavity.GPClassifier(**SETTINGS)
    model.partial_fit(X[PARTS[0]], LABELS[PARTS[0]], classes=["low", "high"])
    model.partial_fit(X[PARTS[2]], LABELS[PARTS[2]])
    assert list(model.classes_) == ["high", "low"]
    assert model.score(X, LABELS) > 0.85
    with pytest.raises(ValueError, match="not there in fitting"):
        model.partial_fit(X[:2], ["low", "middle"])
    with pytest.raises(ValueError, match="not those of the first call"):
        model.partial_fit(X[:2], LABELS[:2], classes=["low", "middle"])
    with pytest.raises(ValueError, match="not among classes"):
        cavity.GPClassifier().partial_fit(X, LABELS, classes=["low", "middle"])


def test_classes_that_are_named_have_their_own_order(monkeypatch):
    learned = []

    def learn(self, problem, scale):
        learned.append(problem.y)

    monkeypatch.setattr(cavity.GPClassifier, "_learn", learn)
    model = cavity.GPClassifier(n_inducing=5)
    model.partial_fit(X[:9], LABELS[:9], classes=["low", "middle", "high"])
    assert list(model.classes_) == ["high", "low", "middle"]
    np.testing.assert_array_equal(model.classes_[learned[0].astype(int)], LABELS[:9])


def test_what_has_no_small_past():
    with pytest.raises(ValueError, match="a full GP grows with its rows"):
        cavity.GPRegressor(n_inducing=None).partial_fit(X, Y)
    with pytest.raises(ValueError, match='method="power_ep"'):
        cavity.GPRegressor(method="laplace", n_inducing=5).partial_fit(X, Y)
    with pytest.raises(ValueError, match="block_size=None"):
        cavity.GPRegressor(block_size=5, n_inducing=5).partial_fit(X, Y)


@pytest.mark.slow
@CALLED
def test_a_full_gp_goes_on_with_points_at_its_rows():
    """The evidence of all rows where nothing is learned: points at the rows explain them."""
    model = cavity.GPRegressor(max_iterations=0).fit(X[:30], Y[:30])
    assert model.inducing_ is None
    before = model.predict(X, return_std=True)
    posterior = with_points_at_rows(model.posterior_, 1e-8)
    mean, var = posterior.marginals(X)
    assert_close(np.asarray(mean) * model.output_scale_, before[0], "fixed_point")
    assert_close(var, model.posterior_.marginals(X).var, "fixed_point", 1.0)
    model.partial_fit(X[30:], Y[30:])
    assert model.inducing_.size >= 30
    assert model.n_rows_ == 90


@pytest.mark.slow
@CALLED
def test_three_classes_of_a_full_gp_go_on():
    labels = np.digitize(Y, [8.0, 12.0])
    model = cavity.GPClassifier(max_iterations=0).fit(X[:30], labels[:30])
    before = model.predict_proba(X)
    posterior = with_points_at_rows(model.posterior_, 1e-8)
    given, wanted = posterior.predict(X), model.posterior_.predict(X)
    assert_close(given.mean, wanted.mean, "fixed_point", 10.0)
    model.partial_fit(X[30:], labels[30:])
    assert before.shape == model.predict_proba(X).shape
    assert model.score(X, labels) > 0.8
