"""The height that the functions of all classes share: zero at a fixed point, and found sooner."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.energy import beliefs, empty_sites, energy, marginals
from cavity.inference.solvers.driver import Limits
from cavity.inference.solvers.parallel import Parallel
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from tests.inference.test_coupled_classes import LABELS, NEW, C, X, kernel
from tests.solving import build_graph
from tests.tolerances import assert_close

METHOD = cavity.PowerEP(coupled=False)
CASES = {
    "probit": (likelihoods.MultinomialProbit(C), 1.0, None),
    "probit, sparse": (likelihoods.MultinomialProbit(C), 1.0, inducing.Points(NEW)),
    "softmax, power 0.5": (likelihoods.Softmax(C), 0.5, inducing.Points(NEW)),
    "softmax, power 0": (likelihoods.Softmax(C), 0.0, None),
    "robust-max": (likelihoods.RobustMax(C, 0.05), 1.0, None),
}


def laid_out(likelihood, power, points, prior=None):
    mean = means.Constant(1.5)
    prior = kernels.RBF(30.0, 0.4) if prior is None else prior
    data = prepare(X, LABELS, power=power)
    model = as_dtype(cavity.GP(prior, likelihood, points, mean), data)
    return build_graph(model, data, METHOD, jnp.asarray(1e-8))


@pytest.mark.sampled(1, "softmax, power 0")
@pytest.mark.parametrize("case", CASES)
def test_taking_it_out_leads_to_the_same_sites_sooner(case):
    """The sum over classes is zero by the sweeps alone, which take ever longer to see it."""
    graph = laid_out(*CASES[case])
    (factor,) = graph.factors
    assert factor.common_mode
    plain = eqx.tree_at(
        lambda g: g.factors, graph, (dataclasses.replace(factor, common_mode=False),)
    )
    # damped alike, and without extrapolation, which would hide the difference
    limits = Limits(1e-10, 20_000, step=0.7)
    run = eqx.filter_jit(lambda graph: Parallel(graph, limits).run(empty_sites(graph)))
    whole = eqx.filter_jit(lambda g, s: (energy(g, s), marginals(g, beliefs(g, s))))
    sites, record = run(graph)
    slow, more = run(plain)
    assert record.converged
    assert more.converged
    assert 2 * int(record.sweeps) < int(more.sweeps)
    for found, expected in zip(sites[0], slow[0], strict=True):
        assert_close(found.precision, expected.precision, "fixed_point")
        assert_close(found.shift, expected.shift, "fixed_point")
    value, (seen,) = whole(plain, slow)
    assert_close(whole(graph, sites)[0], value, "fixed_point")
    heights = np.stack([mean for mean, _ in seen])
    np.testing.assert_allclose(heights.sum(axis=0), 0.0, atol=1e-6)
    assert np.max(np.abs(heights)) > 1.0


@pytest.mark.slow
def test_functions_that_are_not_alike_keep_it():
    """With kernels of their own the means of classes do not add up to zero."""
    graph = laid_out(likelihoods.MultinomialProbit(C), 1.0, None, kernel(private=True))
    (factor,) = graph.factors
    assert not factor.common_mode
    sites, record = Parallel(graph, Limits(1e-8, 500)).run(empty_sites(graph))
    assert record.converged
    (seen,) = marginals(graph, beliefs(graph, sites))
    assert np.max(np.abs(sum(mean for mean, _ in seen))) > 1e-2
