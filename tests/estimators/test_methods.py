"""Inference methods by name, in both estimators."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity.inducing.base import Points
from tests.estimators.problem import problem

pytestmark = pytest.mark.x32

FAST = {"max_iterations": 0, "random_state": 0}
X, Y = problem()
LABELS = np.where(Y + 0.3 * np.random.default_rng(3).standard_normal(60) > 0.0, "yes", "no")
NEW = problem(seed=9, rows=25)[0]


@pytest.fixture(autouse=True)
def _few_iterations():
    """Learning stops early here, which is worth a warning elsewhere."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        yield


def same_as(model, other):
    assert model.log_evidence_ == pytest.approx(other.log_evidence_, rel=1e-9)
    np.testing.assert_allclose(model.predict_latent(NEW), other.predict_latent(NEW), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "likelihood", "by"),
    [
        ("laplace", "bernoulli", "Newton's method"),
        ("local_bound", "logit", "parallel sweeps"),
    ],
)
def test_classifier(name, likelihood, by):
    model = cavity.GPClassifier(likelihood=likelihood, method=name, **FAST).fit(X, LABELS)
    assert model.converged_
    assert model.sites_.finished_by == by
    assert model.score(X, LABELS) > 0.85
    np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "mean_field"])
def test_regressor_with_outliers(name):
    y = Y + np.where(np.arange(60) % 10 == 3, 8.0, 0.0)
    model = cavity.GPRegressor(likelihood="student_t", method=name, **FAST).fit(X, y)
    assert model.converged_
    assert np.median(np.abs(model.predict_latent(X) - Y)) < 0.5
    if name == "mean_field":
        bound = cavity.GPRegressor(likelihood="student_t", method="local_bound", **FAST).fit(X, y)
        same_as(model, bound)


def test_learning_with_a_method():
    """Learning goes uphill, and a method object is the same as its name."""
    setting = {"likelihood": "laplace", "random_state": 0}
    start, learned, given = (
        cavity.GPRegressor(method=method, max_iterations=most, **setting).fit(X, Y)
        for method, most in (
            ("mean_field", 0),
            ("mean_field", 3),
            (cavity.MeanField(), 3),
        )
    )
    assert learned.log_evidence_ > start.log_evidence_
    same_as(learned, given)


@pytest.mark.slow
def test_tied_factors_have_inducing_points():
    """With "auto" a short table has them too."""
    setting = {"likelihood": "student_t", "method": "tied", "power": 0.0, "random_state": 0}
    model = cavity.GPRegressor(n_inducing=8, max_iterations=15, **setting).fit(X, Y)
    assert model.inducing_.size == 8
    assert model.sites_.finished_by == "learning"
    assert model.score(X, Y) > 0.3
    auto = cavity.GPRegressor(max_iterations=1, **setting).fit(X[:20], Y[:20])
    assert auto.inducing_.size == 20
    own = cavity.GPRegressor(
        inducing=Points(X[:5]), n_inducing=None, max_iterations=1, **setting
    ).fit(X, Y)
    assert own.inducing_.size == 5


@pytest.mark.slow
def test_tied_classifier():
    """One site for all rows classifies as a site for each does."""
    tied, private = (
        cavity.GPClassifier(method=method, n_inducing=8, random_state=0).fit(X, LABELS)
        for method in ("tied", "power_ep")
    )
    assert tied.converged_
    same = tied.predict(NEW) == private.predict(NEW)
    assert np.mean(same) > 0.9
    np.testing.assert_allclose(tied.predict_proba(NEW), private.predict_proba(NEW), atol=0.15)


WRONG = {
    "a link without a bound": (
        lambda: cavity.GPClassifier(method="local_bound").fit(X, LABELS),
        r"needs a likelihood with a Gaussian lower bound .*given Bernoulli; use PowerEP\(\)",
    ),
    "counts": (
        lambda: cavity.GPRegressor(likelihood="poisson", method="mean_field").fit(X, Y * 0),
        r"needs a likelihood with a Gaussian lower bound .*given Poisson",
    ),
    "a kink": (
        lambda: cavity.GPRegressor(likelihood="laplace", method="laplace").fit(X, Y),
        "needs two derivatives",
    ),
    "two latent functions": (
        lambda: cavity.GPRegressor(likelihood="heteroscedastic", method="laplace").fit(X, Y),
        "takes likelihoods of one latent function",
    ),
    "no points": (
        lambda: cavity.GPRegressor(method="tied", n_inducing=None).fit(X, Y),
        r"n_inducing=None is the full GP: leave n_inducing=\"auto\", or set a number",
    ),
    "blocks": (
        lambda: cavity.GPRegressor(method="tied", block_size=10).fit(X, Y),
        "leave block_size=None",
    ),
    "powers": (
        lambda: cavity.GPRegressor(method="tied", power=np.full(60, 0.5)).fit(X, Y),
        "one power for all rows",
    ),
    "no name": (
        lambda: cavity.GPClassifier(method="ep").fit(X, LABELS),
        r"must be one of \['laplace', 'local_bound', 'mcmc', 'mean_field', 'power_ep', 'tied'\]",
    ),
}


@pytest.mark.parametrize(("fit", "message"), WRONG.values(), ids=WRONG)
def test_methods_that_do_not_suit(fit, message):
    with pytest.raises(ValueError, match=message):
        fit()
