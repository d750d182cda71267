"""Beliefs over the values at the data: variances by sites or by products, in every regime."""

import jax.numpy as jnp
import numpy as np
import pytest

from cavity.inference.graph.base import Messages
from cavity.inference.graph.marginals import Projection
from cavity.inference.variables.function_values import SETTINGS, FunctionValues


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rows", [SETTINGS.small // 2, 2 * SETTINGS.small])
@pytest.mark.parametrize("unknown", [0.0, 0.02, 0.1, 0.5, 1.0])
def test_marginals_are_those_of_the_dense_inverse(rows, unknown, rng):
    """A share of the rows has sites that say next to nothing."""
    x = np.sort(rng.uniform(0.0, 0.1 * rows, rows))
    K = 1.3 * np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-3 * np.eye(rows)
    tau = np.where(rng.uniform(size=rows) < unknown, 0.0, 10.0 ** rng.uniform(-2.0, 3.0, rows))
    shift = tau * rng.standard_normal(rows)
    messages = Messages(jnp.asarray(shift[:, None]), jnp.asarray(tau[:, None]), jnp.zeros(rows))
    seen = Projection(None, jnp.zeros(rows), jnp.zeros((rows, 1)))
    mean, var = FunctionValues(jnp.asarray(K)).belief(messages).marginal(seen)
    covariance = K - K @ np.linalg.solve(K + np.diag(1.0 / np.maximum(tau, 1e-12)), K)
    np.testing.assert_allclose(mean[:, 0], covariance @ shift, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(var[:, 0], np.diagonal(covariance), rtol=1e-7)
