"""Latent-variable models: sites on inputs, limits of the power, minibatches, slopes, encoders."""

import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods, means
from cavity.inference.energy import beliefs
from cavity.learning.data.training_data import some_rows
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.models.inputs.encoder import linear_encoder
from tests.models import latent_toy as toy
from tests.oracle import dense
from tests.tolerances import assert_close


def tied_method(propagation, *, sites=False):
    return cavity.TiedPowerEP(propagation=propagation, input_sites=sites)


def factor_analysis(weights, bias, Y, noise):
    """Log evidence, and posterior means and variances of the latent inputs."""
    cov = weights.T @ weights + noise * np.eye(Y.shape[1])
    evidence = sum(dense.gaussian_log_density(y, bias, cov) for y in Y)
    precision = np.eye(len(weights)) + weights @ weights.T / noise
    mean = np.linalg.solve(precision, weights @ (Y - bias).T / noise).T
    return evidence, mean, np.diag(np.linalg.inv(precision))


@pytest.mark.sampled(1, "propagation1-1.0-weights1")
@pytest.mark.parametrize(
    ("propagation", "power", "weights"),
    [
        (toy.NODES, 0.5, [[0.6, -0.8, 0.3]]),
        (toy.MOMENTS, 1.0, [[0.9, 0.0], [0.0, -0.7]]),
        (toy.MOMENTS, 0.0, [[0.6, -0.8, 0.3]]),
    ],
)
def test_a_known_linear_map_is_factor_analysis(propagation, power, weights):
    """Where no output shares its input with others, or at power 0, moments are exact too."""
    weights, noise = np.array(weights), 0.5
    columns, outputs = weights.shape
    Y, bias = toy.outputs()[0][:, :outputs], 0.2 * np.arange(outputs)
    Z = np.random.default_rng(7).standard_normal((4, columns))
    model = toy.model(
        kernel=kernels.RBF(1e-14, 1.0),
        likelihood=likelihoods.Gaussian(noise),
        inducing=cavity.inducing.Points(Z),
        mean=means.Linear(weights, bias),
    )
    data = toy.data_of(Y, power)
    graph = toy.problem_of(model, data, tied_method(propagation, sites=True)).graph()
    tied = np.zeros((outputs, 4)), np.zeros((outputs, 4, 4))
    empty = np.zeros((data.rows.y.shape[0], columns))
    start = toy.stores((empty, empty), tied, sites=True)
    sites, record = toy.swept(graph, start)
    assert record.converged
    evidence, mean, var = factor_analysis(weights, bias, Y, noise)
    assert -toy.energy_on(graph, sites) == pytest.approx(evidence, rel=1e-7)
    latent = beliefs(graph, sites)[1]
    np.testing.assert_allclose(latent.mean[: toy.ROWS], mean, atol=1e-7)
    np.testing.assert_allclose(latent.var[: toy.ROWS], np.tile(var, (toy.ROWS, 1)), atol=1e-7)


@pytest.mark.parametrize("propagation", [toy.NODES, toy.MOMENTS])
def test_the_error_of_a_small_power_is_linear_in_it(propagation):
    Y, _ = toy.outputs(missing=True)
    tied, method = toy.random_tied(), tied_method(propagation)

    def value(power):
        data = toy.data_of(Y, power)
        sites = toy.stores(toy.random_inputs(data), tied)
        return toy.log_evidence(toy.model(), data, method, sites)

    zero = value(0.0)
    errors = [value(power) - zero for power in (1e-3, 1e-4)]
    assert errors[0] / errors[1] == pytest.approx(10.0, rel=0.1)


def test_at_power_zero_sites_are_a_variational_posterior():
    """The energy of sites is that of the beliefs that they make."""
    Y, _ = toy.outputs(missing=True)
    data, tied = toy.data_of(Y, 0.0), toy.random_tied()
    inputs = toy.random_inputs(data)
    direct = toy.log_evidence(toy.model(), data, tied_method(toy.NODES), toy.stores(inputs, tied))
    sites = toy.stores(toy.as_sites(data, *inputs), tied, sites=True)
    of_sites = toy.log_evidence(toy.model(), data, tied_method(toy.NODES, sites=True), sites)
    assert_close(of_sites, direct, "factorised")


@pytest.mark.slow
def test_energies_are_stationary_in_the_sites_of_inputs():
    """At a fixed point of their sweeps, with nodes and at a power between zero and one."""
    Y, _ = toy.outputs(missing=True)
    data, tied = toy.data_of(Y, 0.5), toy.random_tied()
    problem = toy.problem_of(toy.model(), data, tied_method(toy.NODES, sites=True))
    inputs = toy.as_sites(data, *toy.random_inputs(data))
    sites, record = toy.swept(problem.graph(), toy.stores(inputs, tied, sites=True))
    assert record.converged
    _, ((_, slopes),) = toy.slopes_of(problem, sites)
    _, ((_, at_start),) = toy.slopes_of(problem, toy.stores(inputs, tied, sites=True))
    assert np.abs(at_start.shift).max() > 1e-2
    assert np.abs(slopes.shift).max() < 1e-7
    assert np.abs(slopes.precision).max() < 1e-7


@pytest.mark.parametrize("with_encoder", [False, True])
def test_minibatches_are_unbiased(with_encoder):
    """The mean over a partition, of rows in which an output is missing too."""
    Y, _ = toy.outputs(missing=True)
    data, method = toy.data_of(Y, 0.5), tied_method(toy.NODES)
    encoder = linear_encoder(Y, 1) if with_encoder else None
    model, tied = toy.model(encoder=encoder), toy.random_tied()
    sites = toy.stores(toy.random_inputs(data), tied)
    if with_encoder:
        sites = ((sites[0][0], None),)
    whole = toy.log_evidence(model, data, method, sites)
    parts = [
        toy.log_evidence(
            model,
            some_rows(data, jnp.arange(start, toy.ROWS, 2)),
            method,
            sites,
            total=data.rows_observed,
            scale=2.0,
        )
        for start in range(2)
    ]
    assert_close(np.mean(parts), whole, "factorised")


FAMILIES = {
    "collapsed": cavity.PowerEP(),
    "free": tied_method(toy.MOMENTS),
    "sites": tied_method(toy.NODES, sites=True),
    "encoder": tied_method(toy.MOMENTS),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
def test_slopes_are_finite_differences(family):
    """Of parameters, inducing points, latent inputs, tied sites and encoders, at power 0.5."""
    Y, _ = toy.outputs(missing=True)
    data = toy.data_of(Y, 0.5)
    encoder = linear_encoder(Y, 1, hidden=2) if family == "encoder" else None
    model = as_dtype(toy.model(encoder=encoder), data)
    objective = Objective(model, data, method=FAMILIES[family], jitter=toy.JITTER)
    random = np.random.default_rng(8)
    x = objective.first + 0.1 * random.standard_normal(objective.size)
    _, slope = objective(x)
    direction, step = random.standard_normal(objective.size), 1e-5
    ahead, behind = (objective(x + sign * step * direction)[0] for sign in (1.0, -1.0))
    assert slope @ direction == pytest.approx((ahead - behind) / (2.0 * step), rel=1e-5)
