"""Mean functions whose weights are integrated out, against dense algebra in numpy."""

import jax
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.models import found_mean
from tests.tolerances import assert_close

R = np.random.default_rng(0)
X = R.standard_normal((25, 2)) * [1.0, 10.0]
Y = np.stack([X @ [1.0, 0.2] + np.sin(3.0 * X[:, 0]), X[:, 0] ** 2], axis=1)
Y = Y + 0.2 * R.standard_normal(Y.shape)
LOCATION, DEVIATIONS = np.array([0.5, 0.1, 0.2]), np.array([4.0, 2.0, 1.0])  # the bias first
MEAN = means.BayesianLinear(LOCATION[1:], LOCATION[0], DEVIATIONS[1:], DEVIATIONS[0], [0.3, 1.0])
KERNEL, NOISE = kernels.RBF(1.3, [0.7, 5.0]), 0.3
FAR = np.array([[9.0, 3.0], [0.0, 200.0]])


def weights(y):
    """Log evidence, and moments of bias and weights: Bayesian linear regression."""
    H, prior = features(X), np.diag(DEVIATIONS**2)
    cov = np.asarray(KERNEL.cross(X, X)) + NOISE * np.eye(len(X)) + H @ prior @ H.T
    away, gain = y - H @ LOCATION, prior @ H.T @ np.linalg.inv(cov)
    evidence = -0.5 * (away @ np.linalg.solve(cov, away) + np.linalg.slogdet(2 * np.pi * cov)[1])
    return evidence, LOCATION + gain @ away, prior - gain @ H @ prior


def features(X):
    return np.c_[np.ones(len(X)), X - [0.3, 1.0]]


def model(inducing=None, likelihood=likelihoods.Gaussian(NOISE), mean=MEAN):
    return cavity.GP(KERNEL, likelihood, inducing, mean)


@pytest.mark.parametrize("points", [None, inducing.Points(X)])
def test_weights_have_their_posterior_moments(points):
    result = cavity.infer(model(points), X, Y[:, 0], jitter=1e-12)
    evidence, location, cov = weights(Y[:, 0])
    np.testing.assert_allclose(result.log_evidence, evidence, atol=1e-5)
    found = found_mean(result.posterior)
    np.testing.assert_allclose(np.r_[found.bias, found.weights], location, atol=1e-6)
    deviations = np.r_[found.bias_deviation, found.weight_deviations]
    np.testing.assert_allclose(deviations, np.sqrt(np.diag(cov)), atol=1e-6)
    # far from the data the function is its mean, and what is not known of that
    moments = result.posterior.marginals(FAR)
    np.testing.assert_allclose(moments.mean, features(FAR) @ location, atol=1e-5)
    spread = np.einsum("nd,de,ne->n", features(FAR), cov, features(FAR)) + 1.3
    np.testing.assert_allclose(moments.var, spread, rtol=1e-5)


def test_several_outputs_have_weights_each():
    result = cavity.infer(model(), X, Y, jitter=1e-12)
    found = found_mean(result.posterior)
    each = [weights(y)[1:] for y in Y.T]
    np.testing.assert_allclose(
        found.weights, np.stack([w[1:] for w, _ in each], axis=1), atol=1e-6
    )
    np.testing.assert_allclose(found.bias, [w[0] for w, _ in each], atol=1e-6)
    assert found.weight_deviations.shape == (2, 2)
    assert found(np.zeros((3, 2))).shape == (3, 2)


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [(likelihoods.StudentT(), cavity.PowerEP()), (likelihoods.Softmax(3), cavity.Laplace())],
)
def test_it_is_the_model_of_the_sum_of_kernels(likelihood, method):
    y = Y[:, 0] if likelihood.latents == 1 else np.arange(len(X)) % 3.0
    known = means.Linear(MEAN.weights, MEAN.bias, MEAN.centre)
    sums = cavity.GP(KERNEL + MEAN.covariance, likelihood, None, known)
    expected = cavity.infer(sums, X, y, method=method)
    result = cavity.infer(model(likelihood=likelihood), X, y, method=method)
    assert_close(result.log_evidence, expected.log_evidence)
    for found, same in zip(
        result.posterior.marginals(FAR), expected.posterior.marginals(FAR), strict=True
    ):
        assert_close(found, same)
    assert found_mean(result.posterior).weights.shape[1:] == (likelihood.latents,) * (
        likelihood.latents > 1
    )


def test_draws_of_the_function_have_its_moments():
    posterior = cavity.infer(model(), X, Y[:, 0]).posterior
    draws = np.asarray(posterior.sample(FAR, 4000, key=jax.random.key(0)))
    mean, var = posterior.marginals(FAR)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=4.0 * np.sqrt(np.max(var) / 4000))


def test_other_means_are_as_they_are_in_the_model():
    posterior = cavity.infer(model(mean=means.Constant(2.0)), X, Y[:, 0]).posterior
    assert float(found_mean(posterior).value) == 2.0


def test_layers_have_no_such_mean():
    with pytest.raises(ValueError, match=r"means\.Linear"):
        cavity.Layer(KERNEL, inducing.Points(X[:5]), 1, mean=MEAN)
