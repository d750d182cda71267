"""Linear models whose sites reach no fixed point."""

import numpy as np

import cavity
from cavity import likelihoods, weights
from cavity.inference.solvers.steps import residual_of
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from tests.solving import problem_of


def test_sites_that_did_not_settle_are_the_nearest_to_a_fixed_point():
    """Neighbouring columns are correlated by 0.9; the residual is that of the sites returned."""
    random = np.random.default_rng(25)
    X = random.standard_normal((120, 60))
    for j in range(1, 60):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    chosen = random.choice(60, 4, replace=False)
    size = random.uniform(0.7, 1.5, 4) * random.choice([-1.0, 1.0], 4)
    y = X[:, chosen] @ size + np.sqrt(0.5) * random.standard_normal(120)
    model = cavity.LinearModel(
        weights.SpikeSlab(4.0 / 60.0, 1.26), likelihoods.Gaussian(0.5), intercept=False
    )
    method = cavity.PowerEP(max_sweeps=60)
    found = cavity.infer(model, X[:20], y[:20], power=1.0, method=method)
    assert not found.converged
    data = prepare(X[:20], y[:20], power=1.0)
    left, _ = residual_of(problem_of(as_dtype(model, data), data, method), found.found)
    np.testing.assert_allclose(found.sites.residual, left, rtol=1e-6)
