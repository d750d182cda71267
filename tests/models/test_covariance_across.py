"""Covariances between two tables are those of the table of both."""

import jax
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.models.covariance_across import covariance_across_rows
from cavity.models.posterior import covariance_between_rows

R = np.random.default_rng(1)
X = R.uniform(-2.0, 2.0, (12, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1]
A, B = R.uniform(-3.0, 3.0, (5, 2)), R.uniform(-3.0, 3.0, (3, 2))
POINTS = inducing.Points(X[:8])
SUM = kernels.RBF() + kernels.Constant(0.3)
TWO = (kernels.RBF(), kernels.Matern32())
LABELS = (Y > -0.5).astype(float) + (Y > 0.5)
CASES = {
    "full": (cavity.GP(kernels.RBF(), likelihoods.Gaussian(0.1)), Y),
    "sparse": (
        cavity.GP(SUM, likelihoods.Gaussian(0.1), POINTS),
        Y,
    ),
    "outputs": (
        cavity.GP(kernels.RBF(), likelihoods.Gaussian(0.1), POINTS),
        np.column_stack([Y, -Y]),
    ),
    "robust": (cavity.GP(kernels.RBF(), likelihoods.StudentT(0.1, 3.0)), Y),
    "functions": (cavity.GP(TWO, likelihoods.HeteroscedasticGaussian()), Y),
    "classes": (cavity.GP(kernels.RBF(), likelihoods.MultinomialProbit(3)), LABELS),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_covariances_across_tables_are_blocks_of_those_within_both(name):
    model, y = CASES[name]
    with jax.enable_x64(True):
        posterior = cavity.infer(model, X, y).posterior
        joint = np.asarray(covariance_between_rows(posterior, np.vstack([A, B])))
        across = np.asarray(covariance_across_rows(posterior, A, B))
    n = len(A)
    block = joint[:, :n, n:] if joint.ndim == 3 else joint[:, :n, :, n:]
    assert across.shape == block.shape
    np.testing.assert_allclose(across, block, rtol=0, atol=1e-10)
