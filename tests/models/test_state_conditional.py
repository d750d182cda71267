"""State-space models whose states have the model's own conditional times a site."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.energy import beliefs, empty_sites, energy
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.hidden_values import HiddenSites
from cavity.inference.variables.inducing_view import OutputMean
from cavity.learning.data.arrays import prepare
from cavity.learning.initialisation.state_space import StateSpaceStart, conditional_sites
from cavity.learning.plans.state_space import fit_state_space
from cavity.models.state_space.conditional import AffinePaths, Paths
from tests.oracle import kalman

A, Q, R = np.array([[0.9, 0.2], [-0.3, 0.8]]), np.array([0.1, 0.2]), np.array([0.1, 0.3])
SERIES = np.array([0, 0, 0, 0, 1, 1, 1])
LINK = np.array([0.0, 1, 1, 1, 0, 1, 1])
METHOD = cavity.TiedPowerEP(hidden="conditional")
COUNT = 200


@pytest.fixture(scope="module")
def linear():
    y = np.random.default_rng(0).normal(size=(7, 2))
    y[2] = np.nan
    Z = cavity.inducing.Points(np.random.default_rng(1).normal(size=(3, 2)))
    kernel = cavity.kernels.RBF(variance=1e-12)
    layer = cavity.Layer(kernel, Z, 2, cavity.means.Linear(A), noise_variance=Q)
    model = cavity.GPSSM(layer, cavity.likelihoods.Gaussian(R))
    smooth = kalman.smooth(
        kalman.LinearModel(A.T, Q, np.eye(2), R, np.zeros(2), np.ones(2)), y, LINK
    )
    return model, y, smooth


def laid_out(model, y):
    data = prepare(
        np.zeros((len(y), 0)),
        y,
        power=0.0,
        rows={"series": np.asarray(SERIES, float)},
        missing="skip",
    )
    return data.problem(model, METHOD.approximation, 1e-9).graph(), data


@pytest.mark.slow
def test_the_energy_is_the_average_of_what_it_says_for_known_paths(linear):
    """Path by path in plain numpy, with the same normal numbers, at sites drawn at random."""
    model, y, _ = linear
    graph, data = laid_out(model, y)
    size = len(data.rows.y)
    rng = np.random.default_rng(4)
    shift, width = rng.normal(size=(size, 2)), rng.uniform(0.1, 1.0, size=(size, 2))
    tied = TiedSite(jnp.zeros((2, 3)), jnp.zeros((2, 3, 3)))
    sites = ((tied, HiddenSites(jnp.asarray(shift), jnp.asarray(width))),)
    ((_, hidden),), (bound,) = sites, graph.bounds
    paths = bound.paths(graph.function_beliefs(beliefs(graph, sites)), hidden)
    total = 0.0
    for k in range(COUNT):
        for t in range(7):
            noise = Q if LINK[t] else np.ones(2)
            f = np.asarray(paths.state)[k, t - 1] @ A if LINK[t] else np.zeros(2)
            precision = np.expm1(width[t]) / noise
            nu = shift[t] / np.sqrt(noise)
            left = 1.0 / (1.0 / noise + precision)
            mean = left * (f / noise + nu)
            # E log p(x | f) - log q(x | f)
            gap = -0.5 * np.sum(np.log(noise / left) + ((mean - f) ** 2 + left) / noise - 1.0)
            total += gap / COUNT
            # functions of variance 1e-12 move states by 1e-6
            np.testing.assert_allclose(paths.mean[k, t], mean, atol=1e-5)
            if t != 2:
                quadratic = ((y[t] - mean) ** 2 + left) / R
                total += -0.5 * np.sum(np.log(2 * np.pi * R) + quadratic) / COUNT
    np.testing.assert_allclose(-energy(graph, sites), total, rtol=1e-5)


@pytest.mark.slow
def test_the_bound_of_linear_dynamics_comes_near_the_evidence(linear):
    model, y, smooth = linear
    options = {"power": 0.0, "rows": {"series": SERIES}, "missing": "skip"}
    found = cavity.infer(model, None, y, method=METHOD, **options)
    # the best conditional has covariances between states, the sites have none; and sites fit the
    # numbers that stand for the average
    assert abs(found.log_evidence - smooth.log_evidence) < 0.15
    assert np.abs(found.posterior.states.mean - smooth.mean).max() < 0.1


@pytest.mark.slow
def test_learning_goes_on_from_a_chain_and_predicts():
    rng = np.random.default_rng(0)
    x = np.zeros(60)
    for t in range(1, 60):
        x[t] = np.sin(2.0 * x[t - 1]) + 0.3 + 0.2 * rng.normal()
    y = x[:, None] + 0.3 * rng.normal(size=(60, 1))
    asked = StateSpaceStart(1, 8, "identity")
    result = fit_state_space(asked, y, method=METHOD, max_iterations=15)
    future = result.posterior.forecast(5, paths=20)
    assert np.all(np.isfinite(future.mean))
    assert np.all(future.var > 0.0)
    assert np.sqrt(np.mean((result.posterior.states.mean[:, 0] - x) ** 2)) < 0.3


def test_refusals(linear):
    model, y, _ = linear
    options = {"rows": {"series": SERIES}, "missing": "skip"}
    with pytest.raises(ValueError, match="give power=0"):
        cavity.infer(model, None, y, power=0.5, method=METHOD, **options)
    method = cavity.PowerEP(hidden="conditional")
    with pytest.raises(ValueError, match="TiedPowerEP"):
        cavity.infer(model, None, y, power=0.0, method=method, **options)
    sites = cavity.TiedPowerEP(hidden="conditional", input_sites=True)
    with pytest.raises(ValueError, match="TiedPowerEP"):
        cavity.infer(model, None, y, power=0.0, method=sites, **options)


@pytest.mark.slow
def test_gradients_are_finite_differences(linear):
    model, y, _ = linear
    graph, data = laid_out(model, y)
    sites = empty_sites(graph)

    def value(noise):
        layer = cavity.Layer(
            cavity.kernels.RBF(variance=0.3),
            model.transition.inducing,
            2,
            model.transition.mean,
            noise_variance=noise,
        )
        moved = cavity.GPSSM(layer, model.likelihood)
        problem = data.problem(moved, METHOD.approximation, 1e-9)
        return energy(problem.graph(), sites)

    at, step = jnp.asarray(Q), jnp.asarray([1e-5, 0.0])
    slope = (value(at + step) - value(at - step)) / 2e-5
    np.testing.assert_allclose(jax.grad(value)(at)[0], slope, rtol=1e-5)


@pytest.mark.slow
def test_sites_that_go_on_from_a_chain_keep_its_first_states():
    """First states have a prior of their own, here wider than the process noise, in two series."""
    y = np.array([[1.5], [1.4], [1.3], [-2.0], [-1.9], [-1.8]])
    Z = cavity.inducing.Points([[-1.0], [1.0]])
    noise = {"noise_variance": 0.01}
    layer = cavity.Layer(cavity.kernels.RBF(), Z, 1, cavity.means.Identity(), **noise)
    model = cavity.GPSSM(layer, cavity.likelihoods.Gaussian(0.01), initial_variance=4.0)
    options = {"power": 0.0, "rows": {"series": [0, 0, 0, 1, 1, 1]}, "max_iterations": 0}
    chain = cavity.fit(model, None, y, **options)
    sites = conditional_sites(chain.posterior, np.zeros((6, 0)))
    data = prepare(np.zeros((6, 0)), y, power=0.0, rows={"series": np.repeat([0.0, 1.0], 3)})
    graph = data.problem(model, METHOD.approximation, 1e-8).graph()
    *_, states = beliefs(graph, sites)
    np.testing.assert_allclose(states.mean[:6], chain.posterior.states.mean, atol=0.1)
    assert -energy(graph, sites) > chain.log_evidence - 5.0


def test_outputs_spread_with_the_squares_of_slopes():
    """Expected log densities of linear functions of Gaussian states, by hand."""
    random = np.random.default_rng(2)
    W, mean = random.normal(size=(2, 3)), random.normal(size=(4, 5, 2))
    var, y = random.uniform(0.1, 1.0, size=(4, 5, 2)), random.normal(size=(5, 3))
    paths = Paths(*map(jnp.asarray, (mean, var, mean, np.zeros_like(mean))))
    functions = OutputMean(cavity.means.Linear(W), 3)
    noise = np.array([0.1, 0.3, 0.2])
    outputs = AffinePaths(cavity.likelihoods.Gaussian(noise), functions)
    found = outputs(paths, (), Rows(jnp.zeros((5, 0)), jnp.asarray(y), jnp.ones((5, 3))))
    square = (y - mean @ W) ** 2 + var @ W**2
    np.testing.assert_allclose(found, -0.5 * (np.log(2 * np.pi * noise) + square / noise))
