"""Ordered classes against differences of normal distribution functions."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import cavity
from cavity.likelihoods import Bernoulli, OrdinalProbit
from tests.likelihoods.refused import refusal
from tests.tolerances import assert_close

EDGES = np.array([-1.1, 0.2, 0.9])
F = np.array([-2.0, 0.0, 0.7, 3.0])[:, None]
LABELS = np.arange(4.0)
ARGS = jnp.array([0.3, -1.7, 4.0, 0.0]), jnp.array([0.5, 2.0, 0.1, 1e3])


def chances(mean, scale=1.0):
    cumulative = stats.norm.cdf((EDGES - mean) / scale)
    zero = np.zeros_like(mean)
    return np.diff(np.concatenate([zero, cumulative, zero + 1.0], axis=1), axis=1)


def test_density():
    found = OrdinalProbit(EDGES).log_prob(F, LABELS)
    assert_close(np.exp(found), chances(F), "factorised")


def test_what_is_learned():
    likelihood = OrdinalProbit(EDGES)
    assert likelihood.classes == 4
    assert_close(likelihood.edges, EDGES)
    assert float(likelihood.first) == EDGES[0]
    assert_close(likelihood.gaps, np.diff(EDGES))
    assert OrdinalProbit([0.3]).gaps.shape == (0,)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("edges", [[], [[0.0, 1.0]], [0.0, 0.0], [1.0, 0.0], [0.0, np.inf], 0.5])
def test_impossible_edges(edges):
    with pytest.raises(ValueError, match="finite numbers in increasing order"):
        OrdinalProbit(edges)


@eqx.filter_jit
def tilted(likelihood, labels, power):
    return likelihood.tilted(*ARGS, labels, power)


@eqx.filter_jit
def predicted(likelihood, labels):
    """Mean, variance, log density and a quantile."""
    out = likelihood.predictive(*ARGS)
    return out.mean, out.var, out.log_density(labels), out.quantile(0.4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_one_edge_is_probit(power, y):
    labels = jnp.full(4, y)
    pair = OrdinalProbit([0.0]), Bernoulli()
    one, other = (tilted(likelihood, labels, power) for likelihood in pair)
    for a, b in zip(one, other, strict=True):
        assert_close(a, b, "quadrature", scale=1.0)
    (*one, low), (*other, same) = (predicted(likelihood, labels) for likelihood in pair)
    for a, b in zip(one, other, strict=True):
        assert_close(a, b, "factorised")
    assert np.array_equal(low, same)


def test_far_out_it_keeps_its_digits():
    """The middle class a thousand units away, and one a millionth wide."""
    f = jnp.array([-1e3, -40.0, 40.0, 1e3])
    found = OrdinalProbit([0.0, 1.0]).log_prob(f, jnp.ones(4))
    z = np.array([-1e3, -40.0, -39.0, -999.0])
    upper = special.log_ndtr(z)
    expected = upper + np.log1p(-np.exp(special.log_ndtr(z - 1.0) - upper))
    assert_close(found, expected)
    thin = OrdinalProbit([0.0, 1e-6]).log_prob(jnp.array([0.3, 9.0]), jnp.ones(2))
    middle = stats.norm.logpdf(np.array([0.3, 9.0]) - 0.5e-6)
    assert_close(thin, middle + np.log(1e-6), "factorised")


def test_closed_form_far_out():
    """Power 1: finite, and the tilted variance positive, a million deviations away."""
    mean, var = jnp.array([-1e6, 1e6, 1e3]), jnp.array([1e-6, 1.0, 1e6])
    for label in LABELS:
        found = OrdinalProbit(EDGES).tilted(mean, var, jnp.full(3, label), 1.0)
        assert all(np.all(np.isfinite(value)) for value in found)
        assert np.all(1.0 + var * found.curvature > 0.0)


def test_predictions():
    out = OrdinalProbit(EDGES).predictive(*ARGS)
    expected = chances(np.asarray(ARGS[0])[:, None], np.sqrt(1.0 + np.asarray(ARGS[1]))[:, None])
    assert_close(out.probabilities, expected, "factorised", scale=1.0)
    assert_close(out.mean, expected @ LABELS, "factorised")
    assert_close(out.var, expected @ LABELS**2 - (expected @ LABELS) ** 2, "factorised", scale=1.0)
    assert_close(out.log_density(jnp.full(4, 2.0)), np.log(expected[:, 2]), "quadrature")
    assert np.all(np.asarray(out.log_density(jnp.array([-1.0, 4.0, 0.5, 9.0]))) == -np.inf)
    levels = np.array([0.1, 0.6])
    quantiles = np.asarray(out.quantile(levels))
    assert quantiles.shape == (2, 4)
    cumulative = np.cumsum(expected, axis=1)
    for level, row in zip(levels, quantiles, strict=True):
        assert np.array_equal(row, np.sum(cumulative < level, axis=1))


def test_guess_is_the_middle_of_the_class():
    assert_close(OrdinalProbit(EDGES).initial_latents(LABELS), [-2.1, -0.45, 0.55, 1.9])


def test_impossible_targets():
    message = refusal(OrdinalProbit(EDGES), [0, 3, 4, 1])
    assert "the first is 4): it takes the labels 0 to 3" in message
    assert "it takes the labels 0 and 1" in refusal(Bernoulli(), [0, 1, 2, 1])


@pytest.mark.slow
def test_in_estimators():
    grades = OrdinalProbit(EDGES)
    with pytest.raises(ValueError, match="is for classification: use GPClassifier"):
        cavity.GPRegressor(likelihood=grades).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="has 4 classes, the labels have 2"):
        cavity.GPClassifier(likelihood=grades).fit(np.eye(4), [0, 1, 0, 1])
    X = np.linspace(-2.0, 2.0, 24)[:, None]
    y = np.repeat([0, 1, 2, 3], 6)
    with warnings.catch_warnings(action="ignore"):
        model = cavity.GPClassifier(likelihood=grades, max_iterations=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.8


@pytest.mark.slow
def test_training():
    """Edges start anywhere in order and find the classes."""
    random = np.random.default_rng(0)
    X = np.linspace(-2.0, 2.0, 40)[:, None]
    y = np.searchsorted([-1.0, 0.6], 1.5 * X[:, 0] + 0.3 * random.normal(size=40)).astype(float)
    with jax.enable_x64(True):
        model = cavity.GP(cavity.kernels.RBF(4.0, [1.0]), OrdinalProbit([-0.2, 0.2]))
        result = cavity.fit(model, X, y, max_iterations=20)
        chance = np.asarray(result.posterior.predict(X).probabilities)
    assert chance.shape == (40, 3)
    assert np.mean(np.argmax(chance, axis=1) == y) > 0.8
