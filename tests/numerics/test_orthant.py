"""Orthant probabilities by EP, and of them the probabilities of dependent classes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import logsumexp

from cavity.likelihoods import MultinomialProbit
from cavity.numerics.orthant import log_orthant
from tests.oracle.nested_ep import inner_log_mass
from tests.tolerances import assert_close

C = 3


def cavities(count=6, dimension=C, seed=3):
    """Moderate means and correlated covariances of functions."""
    random = np.random.default_rng(seed)
    R = random.standard_normal((count, dimension, dimension)) / np.sqrt(dimension)
    V = np.einsum("nij,nkj->nik", R, R) + 0.2 * np.eye(dimension)
    return random.standard_normal((count, dimension)), V


def chances(likelihood, m, V):
    found = eqx.filter_jit(lambda m, V: likelihood.log_probabilities(m, V))
    return np.asarray(found(jnp.asarray(m), jnp.asarray(V)))


def contrasts(m, V, label):
    """Means and covariances of f^j - f^y + u for the other classes j."""
    B = np.delete(np.eye(m.shape[1]) - np.eye(m.shape[1])[label], label, axis=0)
    return m @ B.T, B @ V @ B.T + 1.0


def test_jylanki_47_inner_log_mass_is_near_monte_carlo():
    """jylanki 47: to 2 %, EP's own error at unit variances; closer in tests/inference."""
    m, V = cavities(dimension=4)
    random, size = np.random.default_rng(1), 400_000
    found = chances(MultinomialProbit(4), m, V)
    for i in range(len(m)):
        f = random.multivariate_normal(m[i], V[i] + np.eye(4), size)
        share = np.bincount(np.argmax(f, axis=1), minlength=4) / size
        np.testing.assert_allclose(found[i], np.log(share), atol=2e-2)


def test_inner_log_mass_is_near_quadrature():
    """Of three classes two contrasts are left, whose orthant is a bivariate normal's."""
    m, V = cavities()
    for label in range(C):
        mean, cov = contrasts(m, V, label)
        found = jax.jit(log_orthant)(*map(jnp.asarray, (mean, cov)), jnp.ones(mean.shape))
        expected = [
            stats.multivariate_normal(a, S + np.eye(2)).logcdf(np.zeros(2))
            for a, S in zip(mean, cov, strict=True)
        ]
        np.testing.assert_allclose(found, expected, atol=2e-2)
        assert np.max(np.abs(found - np.array(expected))) > 1e-9  # it is EP, not exact


def test_inner_log_mass_is_that_of_inner_ep():
    """jylanki S74, S75: by the oracle's own parameters, in another order of variables."""
    m, V = cavities()
    for label in range(C):
        mean, cov = contrasts(m, V, label)
        found = jax.jit(log_orthant)(*map(jnp.asarray, (mean, cov)), jnp.ones(mean.shape))
        expected, _, _ = inner_log_mass(m, V, np.full(len(m), label))
        assert_close(found, expected, "factorised")


def test_orthants_of_one_variable_are_exact_and_others_do_not_count():
    mean, cov = contrasts(*cavities(), 0)
    plural = jnp.asarray(np.tile([1.0, 0.0], (len(mean), 1)))
    found = jax.jit(log_orthant)(jnp.asarray(mean), jnp.asarray(cov), plural)
    expected = stats.norm.logcdf(-mean[:, 0] / np.sqrt(1.0 + cov[:, 0, 0]))
    assert_close(found, expected, "factorised")
    strange = cov.copy()
    strange[:, 1, 1] *= 1e3
    other = jax.jit(log_orthant)(jnp.asarray(mean + [0.0, 50.0]), jnp.asarray(strange), plural)
    assert_close(other, expected, "factorised")


def test_orthants_far_out_stay_finite():
    m = np.array([[1e3, 0.0, -1e3], [-40.0, 40.0, 0.0], [0.0, 0.0, 0.0]])
    for variance in (1e-8, 1.0, 1e4):
        found = chances(MultinomialProbit(C), m, np.tile(variance * np.eye(C), (3, 1, 1)))
        assert np.all(np.isfinite(found))
        assert_close(logsumexp(found, axis=1), np.zeros(3), scale=1.0)
        np.testing.assert_allclose(found[2], -np.log(C), atol=0.02)
