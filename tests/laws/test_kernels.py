"""Laws of every kernel and of whatever they combine to, at inputs chosen by hypothesis."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cavity.kernels.text_form import parse

N, D = 6, 2
WORDS = [
    "rbf",
    "matern12",
    "matern32[0]",
    "matern52",
    "rational_quadratic",
    "periodic",
    "spectral_mixture2",
    "linear[1]",
    "polynomial3",
    "arccosine0",
    "arccosine1",
    "arccosine2",
    "neural_network",
    "constant",
    "white",
]

# Coarse values, so that equal rows and equal columns are common.
inputs = arrays.arrays(np.float64, (N, D), elements=st.integers(-40, 40).map(lambda i: i / 8))
kernels = st.recursive(
    st.sampled_from(WORDS),
    lambda inner: st.tuples(inner, st.sampled_from([" + ", " * ", " * 0.3 * "]), inner).map(
        lambda parts: f"({''.join(parts)})"
    ),
    max_leaves=3,
)
few = settings(max_examples=40, deadline=None)


@pytest.mark.slow
@few
@given(kernels, inputs)
def test_covariances_are_positive_semidefinite(written, X):
    K = np.asarray(parse(written, D).cross(jnp.array(X), jnp.array(X)))
    eigenvalues = np.linalg.eigvalsh(0.5 * (K + K.T))
    assert eigenvalues[0] >= -1e-7 * max(eigenvalues[-1], 1e-300)


@few
@given(kernels, inputs, inputs)
def test_correlations_are_at_most_one(written, X, Z):
    kernel = parse(written, D)
    K, a, b = (
        kernel.cross(jnp.array(X), jnp.array(Z)),
        kernel.diag(jnp.array(X)),
        kernel.diag(jnp.array(Z)),
    )
    assert np.all(np.abs(K) <= np.sqrt(a[:, None] * b[None, :]) * (1 + 1e-7))
