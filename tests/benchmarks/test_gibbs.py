"""Gibbs samplers of sparse linear models against enumeration and quadrature."""

import itertools

import numpy as np
import pytest
from benchmarks import gibbs

NOISE = 0.5


def data(columns, seed=1):
    random = np.random.default_rng(seed)
    X = random.normal(size=(20, columns))
    X[:, 1] += 0.4 * X[:, 0]
    w = np.where(np.arange(columns) < 2, 0.8, 0.0)
    return X, X @ w + np.sqrt(NOISE) * random.normal(size=20)


def given_variances(X, y, d):
    """The evidence, means and second moments of coefficients with these prior variances."""
    covariance = (X * d) @ X.T + NOISE * np.eye(len(y))
    gain = np.linalg.solve(covariance, X * d).T
    mean = gain @ y
    variance = d - np.diag(gain @ X) * d
    log_evidence = -0.5 * np.linalg.slogdet(covariance)[1]
    log_evidence -= 0.5 * y @ np.linalg.solve(covariance, y)
    return log_evidence, mean, mean**2 + variance


def mixed(log_weight, means, squares):
    weight = np.exp(log_weight - np.max(log_weight))
    weight /= weight.sum()
    mean = weight @ means
    return mean, np.sqrt(weight @ squares - mean**2), weight


@pytest.mark.parametrize("wide", [False, True])
def test_spike_and_slab_agrees_with_all_models(wide):
    X, y = data(8, seed=2)
    models = np.array(list(itertools.product([0.0, 1.0], repeat=8)))
    found = [given_variances(X, y, 1.2 * model) for model in models]
    log_evidence, means, squares = (np.array(x) for x in zip(*found, strict=True))
    prior = models.sum(axis=1) * np.log(0.3) + (1.0 - models).sum(axis=1) * np.log(0.7)
    mean, deviation, weight = mixed(log_evidence + prior, means, squares)
    drawn = gibbs.spike_slab(X, y, NOISE, 0.3, 1.2, gibbs.Chain(draws=4000, seed=2, wide=wide))
    np.testing.assert_allclose(drawn.mean, mean, atol=0.005)
    np.testing.assert_allclose(drawn.deviation, deviation, atol=0.005)
    np.testing.assert_allclose(drawn.inclusion, weight @ models, atol=0.01)


def test_laplace_agrees_with_quadrature():
    X, y = data(2)
    grid = np.linspace(-2.0, 3.0, 401)
    w = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density = -0.5 * np.sum((y - w @ X.T) ** 2, axis=1) / NOISE - np.sum(np.abs(w), 1) / 0.3
    mean, deviation, _ = mixed(log_density, w, w**2)
    drawn = gibbs.laplace(X, y, NOISE, 0.3, gibbs.Chain(draws=10000, seed=2, wide=True))
    np.testing.assert_allclose(drawn.mean, mean, atol=0.01)
    np.testing.assert_allclose(drawn.deviation, deviation, atol=0.01)


def test_horseshoe_agrees_with_quadrature():
    X, y = data(2)
    psi = np.arange(-16.0, 16.0, 0.4)
    pairs = np.array(list(itertools.product(psi, psi)))
    found = [given_variances(X, y, 0.2**2 * np.exp(pair)) for pair in pairs]
    log_evidence, means, squares = (np.array(x) for x in zip(*found, strict=True))
    prior = -np.log(np.cosh(pairs / 2.0)).sum(axis=1)
    mean, deviation, _ = mixed(log_evidence + prior, means, squares)
    drawn = gibbs.horseshoe(X, y, NOISE, 0.2, gibbs.Chain(draws=10000, seed=2))
    np.testing.assert_allclose(drawn.mean, mean, atol=0.02)
    np.testing.assert_allclose(drawn.deviation, deviation, atol=0.02)
