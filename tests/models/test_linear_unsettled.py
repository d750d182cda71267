"""Linear models whose sites reach no fixed point."""

import numpy as np
import pytest

import cavity
from cavity import likelihoods, weights
from cavity.inference.solvers.steps import residual_of, run_sweeps
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from tests.solving import problem_of


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [None, [range(i, i + 3) for i in range(0, 60, 3)]])
def test_sites_that_did_not_settle_are_the_nearest_to_a_fixed_point(blocks):
    """The residual is that of the sites returned, and none that sweeps met is smaller."""
    random = np.random.default_rng(0)
    X = random.standard_normal((20, 60))
    for j in range(1, 60):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    y = X[:, ::15] @ np.array([1.2, -1.0, 0.8, 1.4]) + np.sqrt(0.5) * random.standard_normal(20)
    prior, noise = weights.SpikeSlab(4.0 / 60.0, 1.26), likelihoods.Gaussian(0.5)
    model = cavity.LinearModel(prior, noise, intercept=False, blocks=blocks)
    method = cavity.PowerEP(max_sweeps=30)
    found = cavity.infer(model, X, y, power=1.0, method=method)
    assert not found.converged
    data = prepare(X, y, power=1.0)
    problem = problem_of(as_dtype(model, data), data, method)
    left, skipped = residual_of(problem, found.found)
    assert skipped == 0
    np.testing.assert_allclose(found.sites.residual, left, rtol=1e-6)
    swept, record = run_sweeps(problem, method.solver, problem.empty_sites())
    assert found.sites.residual <= float(record.residual)
    np.testing.assert_allclose(record.residual, residual_of(problem, swept)[0], rtol=1e-6)
