"""Outputs without noise: jitter that returns, parameters at bounds, no certainty of rounding."""

from typing import Any

import equinox as eqx
import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods, parameters
from cavity.inducing import Points
from cavity.learning.data.arrays import prepare
from cavity.learning.objectives.evidence import Objective

X = np.random.default_rng(0).random((30, 1))
LINE = 5.0 * X[:, 0] + 1e-5 * np.random.default_rng(1).standard_normal(30)


def matern32(a, b, variance, lengthscale):
    far = np.sqrt(np.longdouble(3.0)) * np.abs(np.longdouble(a)[:, None] - b) / lengthscale
    return variance * (1.0 + far) * np.exp(-far)


def extended(K, y):
    """The log density of outputs under a covariance, by eliminations in extended precision."""
    A, found = np.column_stack([K, np.longdouble(y)]), -0.5 * len(y) * np.log(2.0 * np.pi)
    for i in range(len(y)):
        pivot, value = A[i, i], A[i, -1]
        found -= 0.5 * (np.log(pivot) + value**2 / pivot)
        A[i + 1 :] -= A[i + 1 :, i, None] / pivot * A[i]
    return float(found)


def test_the_evidence_is_exact_at_its_own_parameters():
    """It was 9 nats below: a trial point had raised the jitter for good."""
    model: Any = cavity.GPRegressor(kernel="matern32", jitter=0, random_state=0).fit(X, LINE)
    assert model.jitter_ == 0.0
    kernel, noise = model.kernel_, float(model.likelihood_.variance)
    K = matern32(X[:, 0], X[:, 0], float(kernel.variance), float(kernel.lengthscale[0]))
    exact = extended(K + noise * np.eye(30), LINE - float(model.mean_.value))
    np.testing.assert_allclose(model.log_evidence_, exact, atol=3.0)  # of a condition near 1e16
    assert model.log_evidence_ > 180.0


def test_a_point_that_needs_more_jitter_leaves_it_as_it_is():
    """A lengthscale of 1e9 leaves inducing values without a factorisation, and is stepped over."""
    points = Points(np.linspace(0.0, 1.0, 5)[:, None])
    model = cavity.GP(kernels.RBF(1.0, [0.3]), likelihoods.Gaussian(0.1), points)
    maps = parameters.bijections(model)
    maps = eqx.tree_at(lambda m: m.inducing.Z, maps, parameters.FIXED)
    objective = Objective(model, prepare(X, LINE, power=0.5), maps=maps, jitter=0.0)
    first, _ = objective(objective.first)
    far = objective.first.copy()
    far[1] = 17.0  # of the logarithm of the lengthscale
    assert np.isnan(objective(far)[0])
    assert objective.undefined
    assert objective.jitter == 0.0
    assert objective(objective.first)[0] == pytest.approx(first, rel=1e-12)


def test_parameters_at_bounds_are_named():
    y = np.sin(6.0 * X[:, 0])
    model: Any = cavity.GPRegressor(priors="none", random_state=0).fit(X, y)
    assert [bound.name for bound in model.at_bounds_] == ["likelihood.variance"]
    assert not model.at_bounds_[0].largest
    assert "likelihood.variance ended at the least value that is tried" in model.message_
    new = np.linspace(0.05, 0.95, 50)
    np.testing.assert_allclose(model.predict(new[:, None]), np.sin(6.0 * new), atol=1e-5)


def test_given_bounds_are_named_too():
    rng = np.random.default_rng(2)
    gp = cavity.GP(kernels.RBF(1.0, [0.3]), likelihoods.Gaussian(0.1))
    maps = parameters.bijections(gp)
    wide = parameters.Positive(0.05, 0.5)
    maps = eqx.tree_at(lambda m: m.likelihood.variance, maps, wide)
    result = cavity.fit(gp, X, np.sin(6.0 * X[:, 0]), bijections=maps)
    (bound,) = result.at_bounds
    assert (bound.name, bound.largest) == ("likelihood.variance", False)
    noisy = np.sin(6.0 * X[:, 0]) + 0.4 * rng.standard_normal(30)
    assert cavity.fit(gp, X, noisy, bijections=maps).at_bounds == ()


def test_rounding_is_no_certainty():
    """Where the kernel's variance is huge, the difference of two of them was 0 by rounding."""
    model = cavity.GP(kernels.RBF(1e6, [30.0]), likelihoods.Gaussian(1e-9))
    posterior = cavity.infer(model, X, LINE).posterior
    mean, var = posterior.marginals(np.linspace(0.0, 1.0, 20)[:, None])
    assert np.all(np.asarray(var) > 0.0)
    errors = np.asarray(mean).ravel() - 5.0 * np.linspace(0.0, 1.0, 20)
    assert np.sqrt(np.mean(errors**2 / np.asarray(var).ravel())) < 3.0
