"""Special functions against scipy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from cavity.numerics.special import (
    log_ndtr,
    log_ndtr_derivatives,
    scaled_ndtr_derivatives,
)
from tests.tolerances import assert_close

X = np.concatenate([np.linspace(-45.0, 12.0, 20001), [-1e8, -1e3, 0.0, 30.0, 37.0, 1e3]])


def test_log_ndtr():
    found, expected = np.asarray(jax.jit(log_ndtr)(X)), special.log_ndtr(X)
    small = expected == 0.0
    np.testing.assert_allclose(found[~small], expected[~small], rtol=1e-12)
    np.testing.assert_array_equal(found[small], 0.0)
    assert log_ndtr(jnp.float32(-1.0)).dtype == jnp.float32


@pytest.mark.slow
def test_derivatives_of_log_ndtr():
    x = X[:-6]
    ratio = np.exp(stats.norm.logpdf(x) - special.log_ndtr(x))
    slope = jax.vmap(jax.grad(log_ndtr))(jnp.asarray(x))
    assert_close(slope, ratio, "factorised")
    bend = jax.vmap(jax.grad(jax.grad(log_ndtr)))(jnp.asarray(x))
    np.testing.assert_allclose(bend, -ratio * (x + ratio), rtol=1e-8, atol=1e-9)
    assert_close(jax.grad(log_ndtr)(jnp.zeros(())), np.sqrt(2.0 / np.pi))


def test_scaled_derivatives_far_below_zero_too():
    x = np.concatenate([X, -np.logspace(2.0, 12.0, 101)])
    value, slope, bend = map(np.asarray, jax.jit(scaled_ndtr_derivatives)(x))
    expected = special.erfcx(np.abs(x) / np.sqrt(2.0)) / 2.0
    expected = np.where(x < 0.0, expected, special.ndtr(x))
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    ratio = np.exp(-0.5 * np.maximum(x, 0.0) ** 2) / np.sqrt(2.0 * np.pi) / expected
    np.testing.assert_allclose(slope, ratio, rtol=1e-12)
    # the differences lose digits in proportion to x²
    near = x > -100.0
    np.testing.assert_allclose(bend[near], -(ratio * (x + ratio))[near], rtol=1e-10, atol=1e-11)
    square = 1.0 / x[~near] ** 2
    np.testing.assert_allclose(bend[~near], square - 6.0 * square**2 - 1.0, rtol=1e-10)
    single = scaled_ndtr_derivatives(jnp.asarray(x, jnp.float32))
    for found, exact, error in zip(single, (value, slope, bend), (1e-5, 1e-5, 2e-4), strict=True):
        np.testing.assert_allclose(found, exact, rtol=error, atol=1e-5)
    for found, exact in zip(log_ndtr_derivatives(jnp.asarray(x))[1:], (slope, bend), strict=True):
        np.testing.assert_array_equal(found, exact)
