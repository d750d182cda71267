"""Expectations of kernels under Gaussian inputs, against quadrature of `kernel.cross`."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.kernels import (
    RBF,
    Constant,
    Linear,
    SpectralMixture,
    White,
)
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_forms,
    expected_cross,
    expected_diag,
    expected_outer_sum,
    expected_slopes,
)
from cavity.kernels.expectations.rules import ClosedForm, rule

N, D, M = 3, 2, 4
RNG = np.random.default_rng(5)
Z = jnp.asarray(RNG.normal(size=(M, D)))
MEAN = jnp.asarray(RNG.normal(size=(N, D)))
ROOTS = RNG.uniform(-0.6, 0.6, size=(N, D, D))
COVARIANCES = {
    "diagonal": jnp.asarray(RNG.uniform(0.05, 0.6, size=(N, D))),
    "full": jnp.asarray(ROOTS @ ROOTS.transpose(0, 2, 1)),
}
HALVES = RNG.normal(size=(2, M, M))
W = jnp.asarray(HALVES @ HALVES.transpose(0, 2, 1))
WEIGHTS = jnp.asarray(RNG.uniform(size=(N, 2)))

BUMP, LINE = RBF(1.3, [0.9, 1.9]), Linear([0.7, 1.2], [0.2, -0.5])
WAVES = SpectralMixture([0.6, 1.1], [[0.2, -0.1], [0.3, 0.3]], [[0.09, 0.11], [0.09, 0.11]])
CLOSED = {
    "rbf": BUMP,
    "sum": BUMP + LINE + Constant(0.4) + White(0.2),
    "waves": WAVES * RBF(0.8, 1.7) + LINE * RBF(1.1, 2.1).on(1),
    "products": BUMP.on(1, 0) * SpectralMixture([0.7], [[0.2]], [[0.1]]).on(1) * LINE
    + WAVES.on(0, 1) * SpectralMixture([0.7], [[0.2]], [[0.1]])
    + 0.5 * RBF(0.7, 1.4),
}


@eqx.filter_jit
def moments(kernel, inputs, Z, W, weights):
    return {
        "cross": expected_cross(kernel, inputs, Z),
        "diag": expected_diag(kernel, inputs),
        "forms": covariance_forms(kernel, inputs, Z, W),
        "slopes": expected_slopes(kernel, inputs, Z),
        "outer_sum": expected_outer_sum(kernel, inputs, Z, weights),
    }


def by_quadrature(kernel, inputs):
    """The same by a Gauss-Hermite rule of order 50 in each column; slopes by Stein's identity."""
    x, w = np.polynomial.hermite_e.hermegauss(50)
    points = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    w = np.outer(w, w).ravel() / np.sum(w) ** 2
    cross, diag, cov, slopes = [], [], [], []
    evaluate = eqx.filter_jit(lambda kernel, X, Z: (kernel.cross(X, Z), kernel.diag(X)))
    for mean, S in zip(inputs.mean, inputs.cov, strict=True):
        S = np.diag(S) if S.ndim == 1 else np.asarray(S)
        steps = points @ np.linalg.cholesky(S).T
        K, variances = map(np.asarray, evaluate(kernel, mean + steps, Z))
        cross.append(w @ K)
        diag.append(w @ variances)
        away = K - cross[-1]
        cov.append(away.T @ (w[:, None] * away))
        slopes.append(np.linalg.solve(S, steps.T @ (w[:, None] * away)).T)
    cross, cov = np.array(cross), np.array(cov)
    second = cov + cross[:, :, None] * cross[:, None]
    return {
        "cross": cross,
        "diag": np.array(diag),
        "forms": np.einsum("nab,pab->np", cov, W),
        "slopes": np.array(slopes),
        "outer_sum": np.einsum("ng,nab->gab", WEIGHTS, second),
    }


@pytest.mark.parametrize("form", COVARIANCES)
@pytest.mark.parametrize("name", CLOSED)
def test_closed_form_is_the_integral(name, form):
    inputs = GaussianInputs(MEAN, COVARIANCES[form])
    assert isinstance(rule(CLOSED[name], D), ClosedForm)
    actual, expected = (
        moments(CLOSED[name], inputs, Z, W, WEIGHTS),
        by_quadrature(CLOSED[name], inputs),
    )
    for key, value in expected.items():
        scale = np.max(np.abs(value))
        np.testing.assert_allclose(actual[key], value, rtol=1e-10, atol=1e-13 * scale, err_msg=key)
