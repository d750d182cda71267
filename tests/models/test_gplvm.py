"""Latent-variable models: energies against dense sums, closed forms, limits."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.energy import beliefs
from cavity.inference.factors.tied import TiedSite
from tests.models import latent_toy as toy
from tests.oracle import latent
from tests.tolerances import assert_close

POWERS = [0.0, 0.5, 1.0]
COLLAPSED = cavity.PowerEP()


def tied_method(propagation, *, sites=False):
    return cavity.TiedPowerEP(propagation=propagation, input_sites=sites)


@pytest.mark.parametrize("missing", [False, True])
def test_collapsed_bound_is_that_of_quadrature(missing):
    """Identities bui S47, vanderwilk T65: two dimensions, outputs missing, a noise for each."""
    Y, _ = toy.outputs(missing)
    data = toy.data_of(Y, 0.0)
    Z = np.random.default_rng(4).standard_normal((5, 2))
    noise = np.array([0.1, 0.2, 0.05]) if missing else np.full(3, 0.1)
    likelihood = likelihoods.Gaussian(noise if missing else 0.1)
    model = toy.model(inducing=inducing.Points(Z), likelihood=likelihood)
    mean, log_deviation = toy.random_inputs(data, 2)
    found = toy.log_evidence(model, data, COLLAPSED, toy.stores((mean, log_deviation)))
    inputs = mean[: toy.ROWS], np.exp(2.0 * log_deviation[: toy.ROWS])
    jitter = toy.JITTER * toy.VARIANCE
    expected = latent.collapsed_bound(Y, *inputs, Z, toy.kernel, noise, jitter)
    assert_close(found, expected, "quadrature")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", POWERS)
def test_inputs_of_no_variance_give_the_sparse_gp(power):
    """Identity vanderwilk T65: collapsed (VFE at power 0) and tied (SVGP), at every power.

    A point mass has an infinite divergence, which is left out.
    """
    Y, X = toy.outputs()
    data, tied = toy.data_of(Y, power), toy.random_tied()
    mean = np.zeros((data.rows.y.shape[0], 1))
    mean[: toy.ROWS, 0] = X
    inputs = mean, np.full(mean.shape, -30.0)
    infinite = latent.divergence(X, np.exp(-60.0 * np.ones(toy.ROWS)))
    gp = cavity.GP(
        kernels.RBF(toy.VARIANCE, toy.LENGTHSCALE),
        likelihoods.Gaussian(toy.NOISE),
        inducing.Points(toy.Z),
    )
    at_inputs = toy.with_inputs(data, X[:, None])
    expected = toy.log_evidence(gp, at_inputs, COLLAPSED, ())
    found = toy.log_evidence(toy.model(), data, COLLAPSED, toy.stores(inputs))
    assert found + infinite == pytest.approx(expected, rel=1e-10)
    points = toy.model(point_estimates=True)
    found = toy.log_evidence(points, data, COLLAPSED, toy.stores((mean, None)))
    prior = stats.norm.logpdf(X).sum()  # of point estimates, maximum a posteriori
    assert found - prior == pytest.approx(expected, rel=1e-10)
    direct = ((TiedSite(*map(jnp.asarray, tied)),),)
    expected = toy.log_evidence(gp, at_inputs, tied_method(toy.NODES), direct)
    for propagation in (toy.NODES, toy.MOMENTS):
        method = tied_method(propagation)
        found = toy.log_evidence(toy.model(), data, method, toy.stores(inputs, tied))
        assert found + infinite == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("sites", [False, True])
def test_tied_energy_is_that_of_a_dense_sum_over_nodes(power, sites):
    """Identities bui S47 to S50, with outputs missing in different places."""
    Y, _ = toy.outputs(missing=True)
    data, tied = toy.data_of(Y, power), toy.random_tied()
    mean, log_deviation = toy.random_inputs(data)
    inputs = toy.as_sites(data, mean, log_deviation) if sites else (mean, log_deviation)
    method = tied_method(toy.NODES, sites=sites)
    found = toy.log_evidence(toy.model(), data, method, toy.stores(inputs, tied, sites=sites))
    given = inputs if sites else (mean, np.exp(2.0 * log_deviation))
    expected = latent.tied_log_evidence(
        toy.roots(*tied),
        [each[: toy.ROWS] for each in given],
        Y,
        toy.Z,
        toy.kernel,
        toy.NOISE,
        power,
        toy.JITTER * toy.VARIANCE,
        sites=sites,
    )
    assert_close(found, expected, "factorised")


@pytest.mark.slow
def test_the_collapsed_bound_is_the_best_of_the_free_ones():
    """Identity bui 28: the free bound is the same, stationary; other sites are worse."""
    Y, _ = toy.outputs(missing=True)
    data = toy.data_of(Y, 0.0)
    inputs = toy.random_inputs(data)
    model, collapsed = toy.model(), toy.stores(inputs)
    problem = toy.problem_of(model, data, COLLAPSED)
    value, ((slopes,),) = toy.slopes_of(problem, collapsed)
    belief = beliefs(problem.graph(), collapsed)[0]
    site = toy.tied_site(*map(np.asarray, belief.dense()))
    free = toy.problem_of(model, data, tied_method(toy.MOMENTS))
    free_value, ((by_tied, by_inputs),) = toy.slopes_of(free, ((site, collapsed[0][0]),))
    assert_close(free_value, value, "factorised")
    assert_close(by_inputs.mean, slopes.mean, "factorised")
    assert_close(by_inputs.log_deviation, slopes.log_deviation, "factorised")
    assert np.abs(by_tied.mean).max() < 1e-9
    assert np.abs(np.tril(by_tied.raw)).max() < 1e-9
    mean, raw = toy.random_tied()
    for step in (0.1, 1.0):
        other = TiedSite(site.mean + step * mean, site.raw + step * raw)
        assert toy.energy_of(free, ((other, collapsed[0][0]),)) > value


def test_bounds_are_below_the_evidence_of_two_rows():
    """Identity vanderwilk T66, at any latent inputs, and not far below at the best."""
    Y = toy.outputs()[0][:2]
    data = toy.data_of(Y, 0.0)
    problem = toy.problem_of(toy.model(), data, COLLAPSED)
    exact = latent.log_evidence(Y, toy.kernel, toy.NOISE)

    def bound(numbers):
        mean, log_deviation = toy.random_inputs(data)
        mean[:2, 0], log_deviation[:2, 0] = numbers.reshape(2, 2)
        value, ((slopes,),) = toy.slopes_of(problem, toy.stores((mean, log_deviation)))
        gradient = [np.asarray(a)[:2, 0] for a in (slopes.mean, slopes.log_deviation)]
        return float(value), np.concatenate(gradient)

    random = np.random.default_rng(5)
    starts = random.standard_normal((5, 4))
    assert all(-bound(numbers)[0] < exact for numbers in starts)
    best = -min(optimize.minimize(bound, x, jac=True).fun for x in starts)
    assert exact - 5.0 < best < exact


def test_linear_functions_of_known_inputs_are_dual_principal_components():
    """Lawrence (2005): the best inputs in closed form, where their divergence is left out."""
    Y, _ = toy.outputs()
    data = toy.data_of(Y, 0.0)
    Z = np.array([[1.0, 0.3], [-0.4, 1.0]])
    model = toy.model(kernel=kernels.Linear(1.0), inducing=inducing.Points(Z))
    problem = toy.problem_of(model, data, COLLAPSED)
    X, expected = latent.dual_components(Y, 2, toy.NOISE)

    def energy(X):
        mean, log_deviation = np.zeros((data.rows.y.shape[0], 2)), -12.0
        mean[: toy.ROWS] = X.reshape(-1, 2)
        spread = np.full(mean.shape, log_deviation)
        value, ((slopes,),) = toy.slopes_of(problem, toy.stores((mean, spread)))
        own = latent.divergence(X, np.exp(2.0 * spread[: toy.ROWS].ravel()))
        return float(value) - own, np.asarray(slopes.mean)[: toy.ROWS].ravel() - X

    value, slope = energy(X.ravel())
    assert -value == pytest.approx(expected, abs=1e-6)
    assert np.abs(slope).max() < 1e-5
    start = np.random.default_rng(6).standard_normal(X.size)
    end = optimize.minimize(energy, start, jac=True, options={"gtol": 1e-6})
    assert -end.fun == pytest.approx(expected, abs=1e-6)
    found = end.x.reshape(X.shape)
    np.testing.assert_allclose(found @ found.T, X @ X.T, atol=1e-4)
