"""Private Power EP of state-space models: every row has sites on inducing variables too."""

import jax.numpy as jnp
import numpy as np
import pytest

from cavity.inference.energy import beliefs
from cavity.inference.factors.tied import TiedSite
from tests.models import chain_toy as toy
from tests.models.test_state_sites import HALF, states_of
from tests.oracle import kalman


def curved_case(power, propagation="nodes"):
    model, y, c = toy.linear(1)
    layer = toy.transition_layer(model, 1.3)
    graph = toy.graph(model, y, c, layer, toy.PROPAGATIONS[propagation], power, private=True)
    sites, record = toy.swept(graph, toy.start_sites(graph))
    assert record.converged
    return model, y, c, layer, graph, sites


def test_power_zero_is_the_variational_bound_at_its_optimum_in_functions_and_states():
    model, y, c, layer, graph, sites = curved_case(0.0)
    functions, states = beliefs(graph, sites)
    moments = [np.asarray(x).reshape(-1)[: toy.ROWS] for x in states_of(states)]
    mean, cov = functions.dense()
    root = np.linalg.cholesky(cov)
    raw = np.tril(root, -1) + np.log(np.diagonal(root, axis1=1, axis2=2))[:, None] * np.eye(3)

    def value(shift=0.0, bend=0.0):
        tied = TiedSite(mean + shift, jnp.asarray(raw + bend))
        return toy.bound(moments, model, y, c, layer, tied)

    assert float(-toy.energy_of(graph, sites)) == pytest.approx(value(), abs=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(3):
        step = 1e-5 * rng.normal(size=mean.shape), 1e-5 * np.tril(rng.normal(size=raw.shape))
        ahead, behind = value(*step), value(*(-s for s in step))
        assert abs(ahead - behind) < 1e-9
        assert ahead + behind < 2 * value()


@pytest.mark.slow
def test_energies_are_stationary_in_all_sites():
    *_, graph, sites = curved_case(HALF)
    ((functions, states), outputs) = toy.slopes_of(graph, sites)[1]
    both = [s.precision + jnp.swapaxes(s.precision, 2, 3) for s in (functions, states)]
    assert toy.largest((functions.shift, states.shift, both, outputs)) < 1e-8


@pytest.mark.slow
def test_known_linear_transitions_are_the_kalman_smoother():
    model, y, c = toy.linear(2)
    layer = toy.transition_layer(model, 1e-14)
    graph = toy.graph(model, y, c, layer, toy.PROPAGATIONS["moments"], HALF, private=True)
    sites, record = toy.swept(graph, toy.start_sites(graph))
    assert record.converged
    expected = kalman.smooth(model, y, toy.LINK[: toy.ROWS], c)
    assert float(-toy.energy_of(graph, sites)) == pytest.approx(expected.log_evidence, abs=1e-9)
    states = beliefs(graph, sites)[1]
    np.testing.assert_allclose(states.mean[: toy.ROWS], expected.mean, atol=1e-9)
    np.testing.assert_allclose(states.cross[: toy.ROWS], expected.cross, atol=1e-9)
