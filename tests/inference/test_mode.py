"""The mode that Laplace's method looks for, where full steps of Newton's method lead astray."""

import numpy as np
import pytest
from scipy import special

import cavity
from cavity import kernels, likelihoods
from tests.oracle import dense


def poisson_mode(y, prior):
    """Log evidence by Laplace's method and the mode, by Newton's method with a line search."""
    root, z = np.linalg.cholesky(prior), np.zeros(len(y))

    def value(z):
        f = root @ z
        return 0.5 * z @ z - np.sum(y * f - np.exp(np.minimum(f, 300.0)) - special.gammaln(y + 1))

    for _ in range(200):
        rate = np.exp(root @ z)
        bend = np.eye(len(y)) + root.T @ (rate[:, None] * root)
        slope, size = z - root.T @ (y - rate), 1.0
        step = np.linalg.solve(bend, slope)
        while size > 1e-12 and not value(z - size * step) <= value(z):
            size /= 2.0
        z = z - size * step
    return -value(z) - 0.5 * np.linalg.slogdet(bend)[1], root @ z


@pytest.mark.parametrize("count", [30.0, 300.0, 1e6, 1e9])
def test_newton_s_method_does_not_leap_to_where_exponentials_overflow(count):
    """A full step from zero goes to half the largest count, in a logarithm."""
    inputs = np.linspace(0.0, 1.0, 8)[:, None]
    y = np.array([0.0, 0.0, 5.0, 0.0, 0.0, 3.0, count, 0.0])
    gp = cavity.GP(kernels.RBF(1.0, 0.3), likelihoods.Poisson())
    found = cavity.infer(gp, inputs, y, method=cavity.Laplace())
    evidence, mode = poisson_mode(y, dense.rbf(inputs, inputs, 1.0, 0.3) + 1e-10 * np.eye(8))
    assert found.converged
    np.testing.assert_allclose(found.log_evidence, evidence, rtol=1e-6)
    np.testing.assert_allclose(found.posterior.marginals(inputs).mean, mode, atol=1e-5)
