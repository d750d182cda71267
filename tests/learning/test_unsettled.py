"""Learning where sites do not settle: their energy is no evidence, and must not be followed."""

import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective


def outliers():
    random = np.random.default_rng(2)
    inputs = np.sort(random.uniform(0.0, 4.0, 20))[:, None]
    outputs = np.sin(2.0 * inputs[:, 0]) + 0.02 * random.standard_normal(20)
    outputs[::5] += random.normal(0.0, 2.0, 4)
    return inputs, outputs


MODEL = cavity.GP(cavity.kernels.RBF(1.0, 0.7), cavity.likelihoods.StudentT(0.1, 2.0))


@pytest.mark.slow
def test_sites_far_from_a_fixed_point_have_no_objective():
    """At narrow noise these sites go nowhere, and their energy would be -1,000 or -80,000."""
    inputs, outputs = outliers()
    data = prepare(inputs, outputs, power=1.0)
    objective = Objective(as_dtype(MODEL, data), data)
    with one_blas_thread():
        first, _ = objective(np.zeros(objective.size))
        sites = objective.sites
        value, slope = objective(np.array([3.0, 2.0, -5.0, 0.0]) / objective.coordinates.scale)
    assert 0.0 < first < 100.0
    assert np.isnan(value)
    assert np.all(np.isnan(slope))
    assert objective.jitter == 1e-8  # more of it would not help
    assert objective.sites is sites  # the next evaluation starts from the last good ones


def test_learning_stops_where_sites_settle():
    inputs, outputs = outliers()
    found = cavity.fit(MODEL, inputs, outputs, power=1.0)
    assert found.log_evidence < 0.0  # 20 outputs with outliers are no more likely than this
    assert found.sites.residual < 1e-6
    again = cavity.infer(found.model, inputs, outputs, power=1.0)
    np.testing.assert_allclose(again.log_evidence, found.log_evidence, atol=1e-5)
    assert jnp.all(found.posterior.marginals(inputs).var > 0.0)


@pytest.mark.slow
def test_the_posterior_is_that_of_the_best_value():
    """Laplace's method has two modes here, and the last point tried is in the other one."""
    random = np.random.default_rng(3)
    inputs = np.sort(random.uniform(0.0, 6.0, (30, 1)), 0)
    outputs = np.sin(1.3 * inputs[:, 0]) + 0.1 * random.standard_normal(30)
    outputs[[4, 15, 22]] += [3.0, -2.0, 4.0]
    model = cavity.GP(cavity.kernels.RBF(2.0, [1.0]), cavity.likelihoods.StudentT(0.2, 4.0))
    found = cavity.fit(model, inputs, outputs, method=cavity.Laplace())
    np.testing.assert_allclose(found.objective, min(found.history), atol=1e-4)
    # a fold in the mode ends the search on a slope, which is no minimum
    assert not found.converged
    assert "it jumps, as where a mode ends" in found.message
