"""Power EP of state-space models: sites on pairs of states, on single states and on outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity import fitting, inducing, kernels, likelihoods
from cavity.inference.energy import beliefs
from cavity.inference.graph.marginals import Latent, MeanRoot
from cavity.inference.graph.rows import Rows
from cavity.models.deep.layer import Layer
from cavity.models.state_space.site_terms import EmissionTerm, TransitionTerm
from tests.models import chain_toy as toy
from tests.oracle import dense, kalman
from tests.tolerances import assert_close

HALF, ONE = jnp.asarray(0.5), jnp.asarray(1.0)


def linear_case(size, propagation, power, *, factorised=False):
    model, y, c = toy.linear(size)
    layer = toy.transition_layer(model, 1e-14)
    graph = toy.graph(
        model, y, c, layer, toy.PROPAGATIONS[propagation], power, factorised=factorised
    )
    expected = kalman.smooth(model, y, toy.LINK[: toy.ROWS], c)
    return graph, toy.start_sites(graph, toy.tied_site(layer)), expected


def assert_smoothed(graph, sites, expected, *, cross=True):
    states, rows = beliefs(graph, sites)[1], slice(toy.ROWS)
    assert float(-toy.energy_of(graph, sites)) == pytest.approx(expected.log_evidence, abs=1e-9)
    np.testing.assert_allclose(states.mean[rows], expected.mean, atol=1e-9)
    np.testing.assert_allclose(states.cov[rows], expected.cov, atol=1e-9)
    if cross:
        np.testing.assert_allclose(states.cross[rows], expected.cross, atol=1e-9)


SLOW_NODES = pytest.param("nodes", marks=pytest.mark.slow)
SLOW_TANGENTS = pytest.param("linearised", marks=pytest.mark.slow)


@pytest.mark.parametrize("propagation", ["moments", SLOW_NODES, SLOW_TANGENTS])
def test_one_sweep_at_power_zero_is_the_kalman_smoother(propagation):
    """With known linear transitions, controls, missing outputs and a row without any."""
    graph, start, expected = linear_case(2, propagation, 0.0)
    assert_smoothed(graph, toy.swept_once(graph, start), expected)


@pytest.mark.slow
@pytest.mark.parametrize("power", [HALF, ONE])
def test_pair_sites_are_the_kalman_smoother_at_every_power(power):
    graph, start, expected = linear_case(2, "moments", power)
    sites, record = toy.swept(graph, start)
    assert record.converged
    assert_smoothed(graph, sites, expected)


@pytest.mark.slow
def test_sites_on_single_states_agree_at_power_one():
    """The graph is a tree, on which they are belief propagation."""
    graph, start, expected = linear_case(2, "moments", ONE, factorised=True)
    sites, record = toy.swept(graph, start)
    assert record.converged
    assert_smoothed(graph, sites, expected, cross=False)
    assert largest_cross(graph, sites) == 0.0


def largest_cross(graph, sites):
    return float(jnp.max(jnp.abs(beliefs(graph, sites)[1].cross)))


# ---- transitions that are no lines


def curved_case(power, propagation="nodes"):
    model, y, c = toy.linear(1)
    layer = toy.transition_layer(model, 1.3)
    graph = toy.graph(model, y, c, layer, toy.PROPAGATIONS[propagation], power)
    tied = toy.tied_site(layer, 1.0)
    return model, y, c, layer, tied, graph


@pytest.mark.parametrize("propagation", ["nodes", pytest.param("moments", marks=pytest.mark.slow)])
def test_energies_are_stationary_in_the_sites(propagation):
    *_, tied, graph = curved_case(HALF, propagation)
    start = toy.start_sites(graph, tied)
    sites, record = toy.swept(graph, start)
    assert record.converged

    def slopes(sites):
        (_, states), outputs = toy.slopes_of(graph, sites)[1]
        # precisions are symmetric, and so are their changes
        both = states.precision + jnp.swapaxes(states.precision, 2, 3)
        return toy.largest((states.shift, both, outputs))

    assert slopes(start) > 1e-2
    assert slopes(sites) < 1e-8


def test_slopes_are_finite_differences_of_the_energy_with_sites_found_anew():
    *_, tied, graph = curved_case(HALF)
    sites, _ = toy.swept(graph, toy.start_sites(graph, tied))
    (by_tied, _), _ = toy.slopes_of(graph, sites)[1]

    def energy_at(shift):
        moved = type(tied)(tied.mean + shift, tied.raw)
        ((_, states), outputs) = sites
        again, record = toy.swept(graph, ((moved, states), outputs))
        assert record.converged
        return float(toy.energy_of(graph, again))

    step = 1e-4 * np.random.default_rng(2).normal(size=tied.mean.shape)
    along = float(jnp.sum(by_tied.mean * step))
    assert along == pytest.approx(0.5 * (energy_at(step) - energy_at(-step)), rel=1e-5)


@pytest.mark.slow
def test_power_zero_is_the_variational_bound_at_its_optimum():
    model, y, c, layer, tied, graph = curved_case(0.0)
    sites, record = toy.swept(graph, toy.start_sites(graph, tied))
    assert record.converged
    states = beliefs(graph, sites)[1]
    moments = [np.asarray(x).reshape(-1)[: toy.ROWS].copy() for x in states_of(states)]
    whole = (model, y, c, layer, tied)
    value = toy.bound(moments, *whole)
    assert float(-toy.energy_of(graph, sites)) == pytest.approx(value, abs=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(4):
        step = [1e-5 * rng.normal(size=toy.ROWS) for _ in range(3)]
        step[2] *= toy.LINK[: toy.ROWS]
        ahead = toy.bound([a + b for a, b in zip(moments, step, strict=True)], *whole)
        behind = toy.bound([a - b for a, b in zip(moments, step, strict=True)], *whole)
        assert abs(ahead - behind) < 1e-9
        assert ahead + behind < 2 * value


def states_of(states):
    return states.mean, states.cov, states.cross


# ---- terms by brute force

ROW = Rows(jnp.zeros((1, 0)), jnp.zeros((1, 1)), jnp.ones((1, 1)))


def two_functions():
    """Functions of two states that share inducing points, known at these to a share."""
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(4, 2))
    layer = Layer(
        kernels.RBF(0.9, 1.1), inducing.Points(Z), width=2, noise_variance=np.array([0.2, 0.4])
    )
    mean, root = rng.normal(size=(2, 4)), 0.3 * rng.normal(size=(2, 4, 4))
    return layer, mean, root


def functions_at(x, layer, mean, root):
    Z = np.asarray(layer.inducing.Z)
    L = np.linalg.cholesky(dense.rbf(Z, Z, 0.9, 1.1) + toy.JITTER * 0.9 * np.eye(4))
    a = np.linalg.solve(L, dense.rbf(Z, x, 0.9, 1.1))
    var = 0.9 - np.sum(a**2, axis=0) + np.sum((root @ a) ** 2, axis=1)
    return (mean @ a).T, var.T


def brute_force(pair_mean, pair_cov, power, layer, mean, root):
    """The power mean over the state before, and the moments of the difference."""
    V, size = pair_cov[:2, :2], 2
    W = np.linalg.solve(V, pair_cov[:2, 2:]).T
    H = pair_cov[2:, 2:] - W @ pair_cov[:2, 2:]
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2
    away = z @ np.linalg.cholesky(V).T
    f, var = functions_at(pair_mean[:2] + away, layer, mean, root)
    off, Q = f - away @ W.T - pair_mean[2:], np.diag(layer.noise_variance)
    values = []
    for r, v in zip(off, var, strict=True):
        cov = H + np.diag(v) + Q / power
        constant = 0.5 * np.linalg.slogdet(2 * np.pi * Q / power)[1]
        constant -= 0.5 * power * np.linalg.slogdet(2 * np.pi * Q)[1]
        values.append(constant + dense.gaussian_log_density(r, np.zeros(size), cov))
    centre = weights @ off
    spread = (weights[:, None] * (off - centre)).T @ (off - centre) + np.diag(weights @ var) + H
    return np.log(weights @ np.exp(values)) / power, centre, spread


def test_the_power_mean_of_a_transition_is_its_integral():
    """With neighbours that depend on each other (E14), by nodes and by moments."""
    power, (layer, mean, root) = 0.7, two_functions()
    rng = np.random.default_rng(6)
    pair_mean, square = rng.normal(size=4), rng.normal(size=(4, 4))
    pair_cov = 0.1 * square @ square.T + 0.1 * np.eye(4)
    value, centre, spread = brute_force(pair_mean, pair_cov, power, layer, mean, root)
    Q, P = np.diag(layer.noise_variance), 2
    constant = 0.5 * np.linalg.slogdet(2 * np.pi * Q / power)[1]
    constant -= 0.5 * power * np.linalg.slogdet(2 * np.pi * Q)[1]
    density = dense.gaussian_log_density(centre, np.zeros(P), spread + Q / power)
    projected = (constant + density) / power
    zero = jnp.zeros(())
    latents = (
        MeanRoot(jnp.asarray(mean), jnp.asarray(root)),
        Latent(jnp.asarray(pair_mean)[None, None], jnp.asarray(pair_cov)[None, None], zero),
    )
    views = layer.views(toy.JITTER)
    for propagation, expected in ((fitting.Nodes(1600), value), (fitting.Moments(), projected)):
        term = TransitionTerm(layer, views, propagation)
        actual = jax.jit(lambda t: t.log_mean(latents, ROW, power))(term)
        assert_close(actual, [[expected]], "factorised")


@pytest.mark.slow
def test_small_powers_are_variational_but_for_tangents():
    """Identity 29 of bui.md: by moments and nodes a transition's term goes to its expected log
    density as fast as the power; by the tangent it stays away from it."""
    layer, mean, root = two_functions()
    rng = np.random.default_rng(6)
    pair_mean, square = rng.normal(size=4), rng.normal(size=(4, 4))
    pair_cov = 0.1 * square @ square.T + 0.1 * np.eye(4)
    _, centre, spread = brute_force(pair_mean, pair_cov, 1.0, layer, mean, root)
    Q = np.diag(layer.noise_variance)
    second = spread + np.outer(centre, centre)
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * Q)[1] + np.trace(np.linalg.solve(Q, second)))
    zero, powers = jnp.zeros(()), np.array([1e-2, 5e-3, 1e-4, 1e-5])
    latents = (
        MeanRoot(jnp.asarray(mean), jnp.asarray(root)),
        Latent(jnp.asarray(pair_mean)[None, None], jnp.asarray(pair_cov)[None, None], zero),
    )
    views, away = layer.views(toy.JITTER), {}
    for propagation in (fitting.Moments(), fitting.Nodes(1600), fitting.Linearised()):
        term = TransitionTerm(layer, views, propagation)
        value = jax.jit(jax.vmap(lambda a, t=term: t.log_mean(latents, ROW, a)[0, 0]))
        away[type(propagation).__name__] = np.asarray(value(jnp.asarray(powers))) - expected
    for name in ("Moments", "Nodes"):
        assert away[name][1] / away[name][0] == pytest.approx(0.5, abs=0.02)
        assert abs(away[name][2]) < 0.02 * abs(away[name][0])
    tangent = away["Linearised"]
    assert abs(tangent[3]) > 1.0
    assert tangent[3] == pytest.approx(tangent[2], rel=0.03)


def test_the_power_mean_of_outputs_is_its_integral():
    """Of functions of a state: with Gaussian noise, one output missing, and of counts."""
    power, (layer, mean, root) = 0.7, two_functions()
    rng = np.random.default_rng(7)
    m, V = rng.normal(size=2), np.array([[0.4, 0.1], [0.1, 0.3]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2
    f, var = functions_at(m + z @ np.linalg.cholesky(V).T, layer, mean, root)
    noise, y = 0.3, np.array([0.8, 2.0])
    total = var[:, 0] + noise / power
    log_each = -0.5 * (np.log(2 * np.pi * total) + (y[0] - f[:, 0]) ** 2 / total)
    log_each += 0.5 * np.log(2 * np.pi * noise / power) - 0.5 * power * np.log(2 * np.pi * noise)
    expected = np.log(weights @ np.exp(log_each)) / power
    zero = jnp.zeros(())
    latents = (
        MeanRoot(jnp.asarray(mean), jnp.asarray(root)),
        Latent(jnp.asarray(m)[None, None], jnp.asarray(V)[None, None], zero),
    )
    rows = Rows(jnp.zeros((1, 0)), jnp.asarray(y)[None], jnp.array([[1.0, 0.0]]))
    gaussian = likelihoods.Gaussian(noise)
    term = EmissionTerm(layer, layer.views(toy.JITTER), gaussian, fitting.Nodes(1600))
    assert_close(term.log_mean(latents, rows, power), [[expected]], "factorised")
