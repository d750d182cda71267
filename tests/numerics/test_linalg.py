"""Cholesky factors, their inverses, and the jitter policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular

from cavity.numerics.linalg import (
    MOST_JITTER,
    cholesky,
    escalate,
    inverse_lower,
    jittered,
    log_determinant,
    safe_sqrt,
)
from tests.tolerances import assert_close


def with_condition(condition, size=12):
    """A covariance matrix with eigenvalues spread evenly in logarithm, and 40 columns."""
    rng = np.random.default_rng(0)
    vectors, _ = np.linalg.qr(rng.normal(size=(size, size)))
    K = (vectors * np.logspace(0, -np.log10(condition), size)) @ vectors.T
    # columns such as those of Kuf: within the span, as large as K allows
    return jnp.asarray(0.5 * (K + K.T)), K @ rng.normal(size=(size, 40))


@pytest.mark.parametrize("condition", [1e2, 1e6, 1e10])
def test_products_with_the_inverse_are_solves(condition):
    """To 1e-9 relative up to a condition of 1e10, as the docstring says."""
    K, columns = with_condition(condition)
    L = cholesky(K)
    solves = solve_triangular(L, columns, lower=True)
    products = inverse_lower(L) @ columns
    assert np.max(np.abs(products - solves)) < 1e-9 * np.max(np.abs(solves))
    # what it is used for: the variance explained, Σ A²
    explained, expected = (np.sum(np.asarray(a) ** 2, axis=0) for a in (products, solves))
    np.testing.assert_allclose(explained, expected, rtol=1e-9)


def test_log_determinant():
    K, _ = with_condition(1e6)
    assert_close(log_determinant(cholesky(K)), np.linalg.slogdet(K)[1], "factorised")
    both = jnp.stack([K, 2.0 * K])
    expected = [np.linalg.slogdet(k)[1] for k in both]
    assert_close(log_determinant(cholesky(both)), expected, "factorised")


def test_jitter_is_a_share_of_the_mean_variance():
    """The diagonal is what is given, not what rounding made of it."""
    K = jnp.array([[9.0, 1.0], [1.0, 9.0]])
    found = jittered(K, 0.1, jnp.array([2.0, 4.0]))
    assert_close(found, [[2.3, 1.0], [1.0, 4.3]])


def test_escalation_is_tenfold_and_bounded():
    levels, level = [], 1e-8
    while level is not None:
        levels.append(level)
        level = escalate(level)
    assert_close(levels, [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3])
    assert escalate(0.0) == 1e-10
    assert escalate(MOST_JITTER) is None


def test_a_failed_factorisation_is_not_a_number():
    L = cholesky(jnp.array([[1.0, 2.0], [2.0, 1.0]]))
    assert np.isnan(log_determinant(L))


def test_safe_sqrt():
    x = jnp.array([0.0, 4.0, -1.0])
    assert_close(safe_sqrt(x), [0.0, 2.0, 0.0])
    assert_close(jax.vmap(jax.grad(safe_sqrt))(x), [0.0, 0.25, 0.0])
