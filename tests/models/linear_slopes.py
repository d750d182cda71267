"""Slopes of the energies of linear models, beside differences of evidences."""

import equinox as eqx
import numpy as np

import cavity
from cavity.inference.energy import energy
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import checked_start


def assert_slopes_are_differences(model, X, y, parameter):
    """Jylanki (2013), identity 17 and S30: explicit terms alone.

    Args:
        model: a linear model with Gaussian noise.
        X: inputs.
        y: outputs.
        parameter: gives the parameter of a prior to be moved, beside the noise variance.
    """
    data = prepare(X, y, power=1.0)
    start, _, jitter = checked_start(model, data, 0.0)
    approximation = cavity.PowerEP().approximation
    settled = cavity.infer(start, X, y, power=1.0)
    assert settled.converged

    def value(model):
        graph = data.problem(model, approximation, jitter).graph()
        return energy(graph, settled.found, settled=True)

    slopes = eqx.filter_grad(value)(start)
    for where in (lambda m: m.likelihood.variance, lambda m: parameter(m.prior)):
        step = 1e-4 * float(where(start))
        ends = [
            cavity.infer(eqx.tree_at(where, start, where(start) + s), X, y, power=1.0).log_evidence
            for s in (step, -step)
        ]
        difference = -(ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(float(where(slopes)), difference, rtol=2e-4, atol=1e-3)
