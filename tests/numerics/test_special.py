"""Special functions against scipy."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from cavity.numerics.special import log_ndtr
from tests.tolerances import assert_close

X = np.concatenate([np.linspace(-45.0, 12.0, 20001), [-1e8, -1e3, 0.0, 30.0, 37.0, 1e3]])


def test_log_ndtr():
    found, expected = np.asarray(jax.jit(log_ndtr)(X)), special.log_ndtr(X)
    small = expected == 0.0
    np.testing.assert_allclose(found[~small], expected[~small], rtol=1e-12)
    np.testing.assert_array_equal(found[small], 0.0)
    assert log_ndtr(jnp.float32(-1.0)).dtype == jnp.float32


def test_derivatives_of_log_ndtr():
    x = X[:-6]
    ratio = np.exp(stats.norm.logpdf(x) - special.log_ndtr(x))
    slope = jax.vmap(jax.grad(log_ndtr))(jnp.asarray(x))
    assert_close(slope, ratio, "factorised")
    bend = jax.vmap(jax.grad(jax.grad(log_ndtr)))(jnp.asarray(x))
    np.testing.assert_allclose(bend, -ratio * (x + ratio), rtol=1e-8, atol=1e-9)
    assert_close(jax.grad(log_ndtr)(jnp.zeros(())), np.sqrt(2.0 / np.pi))
