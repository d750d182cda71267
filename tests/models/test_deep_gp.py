"""Deep Gaussian processes: energies against dense sums over nodes, limits, predictions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.factors.tied import TiedSite
from cavity.inference.variables.inducing import InducingBelief
from cavity.kernels.expectations import GaussianInputs
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import some_rows
from cavity.models.deep.summary import summarise, summary_table
from tests.models.tied_deep_toy import (
    compiled_energy,
    energy_at,
    step_model,
    two_layer_energy,
    two_outputs_model,
)
from tests.tolerances import assert_close

POWERS = [0.0, 0.3, 1.0]
NODES = cavity.fitting.Nodes(40)


@pytest.fixture(scope="module")
def toy():
    """One hidden function and two outputs, one of which is missing twice."""
    return two_outputs_model()


@pytest.mark.parametrize("power", POWERS)
def test_energy_is_that_of_a_dense_sum_over_nodes(toy, power):
    """Identity bui 42: tied Power EP at every power, outputs missing in different places."""
    X, Y, Z1, Z2, model = toy
    data = prepare(X, Y, power=power, missing="skip")
    value, (sites,) = energy_at(model, data, cavity.TiedPowerEP(propagation=NODES))
    tied = [TiedSite(*map(np.asarray, (s.mean, s.raw))) for s in sites]
    expected = two_layer_energy(tied, X, Y, Z1, Z2, power, 0.1, 0.15, nodes=40)
    assert_close(value, expected, "factorised")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", POWERS)
def test_one_layer_is_the_sparse_gp(rng, power):
    """Identity bui 38, at any tied site, for noise that is not Gaussian."""
    X, Z = rng.standard_normal((20, 2)), rng.standard_normal((5, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(20)
    kernel, likelihood = kernels.RBF(1.2, [0.7, 1.5]), likelihoods.StudentT(0.2, 4.0)
    mean, points = means.Constant(0.3), inducing.Points(Z)
    deep = cavity.DeepGP([cavity.Layer(kernel, points, mean=mean)], likelihood)
    single = cavity.GP(kernel, likelihood, points, mean)
    data = prepare(X, y, power=power)
    method = cavity.TiedPowerEP()
    found, expected = (energy_at(model, data, method)[0] for model in (deep, single))
    assert_close(found, expected, "factorised")


def test_the_error_of_a_small_power_is_linear_in_it(toy):
    X, Y, _, _, model = toy
    method = cavity.TiedPowerEP(propagation=NODES)

    def value(power):
        return energy_at(model, prepare(X, Y, power=power, missing="skip"), method)[0]

    zero = value(0.0)
    errors = [value(power) - zero for power in (1e-3, 1e-4)]
    assert errors[0] / errors[1] == pytest.approx(10.0, rel=0.1)


def test_hidden_values_take_hundreds_of_points(toy):
    """From 380 on weights were no numbers; beyond 1,000 that is said."""
    X, Y, _, _, model = toy
    data = prepare(X, Y, power=0.5, missing="skip")
    few, many = (
        energy_at(model, data, cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(count)))[0]
        for count in (100, 400)
    )
    assert_close(many, few, "factorised")
    with pytest.raises(ValueError, match="from 1 to 1,000 nodes"):
        energy_at(model, data, cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(1001)))


# golden values of the specification, at fixed parameters; the power 0 value is a bound
GOLDEN = {
    NODES: {0.0: -16.345, 0.1: -14.689, 0.5: -11.111, 1.0: -8.794},
    cavity.fitting.Moments(): {0.0: -16.345, 0.1: -15.348, 0.5: -12.412, 1.0: -9.645},
}


@pytest.fixture(scope="module")
def step():
    return step_model()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("propagation", "power"), [(choice, power) for choice in GOLDEN for power in GOLDEN[choice]]
)
def test_the_golden_toy(step, propagation, power):
    """Inventory chamberlin, section 0.3: the tied explicit conditional, by nodes and moments."""
    X, y, model = step
    method = cavity.TiedPowerEP(propagation=propagation, tolerance=1e-7)
    found = cavity.infer(model, X, y, power=power, jitter=1e-9, method=method)
    assert found.converged
    assert found.log_evidence == pytest.approx(GOLDEN[propagation][power], abs=5e-3)


@pytest.mark.slow
def test_nodes_are_unbiased_and_their_logarithm_is_low():
    """Identity bui 31: over rows alike the mean of the density, below it that of its logarithm."""
    rows, y, noise = 40_000, 0.3, 0.2
    bias = []
    for count in (2, 8):
        z, log_weights = cavity.fitting.Nodes(count).points(2, rows, None, jnp.dtype(float))
        seen = np.einsum("kn,k->n", density(np.asarray(z), y, noise), np.exp(log_weights))
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        grid = np.stack(np.meshgrid(nodes, nodes), -1)
        exact = weights @ density(grid, y, noise) @ weights / np.sum(weights) ** 2
        assert np.mean(seen) == pytest.approx(exact, rel=1e-2)
        bias.append(np.log(exact) - np.mean(np.log(seen)))
    assert bias[0] > 4.0 * bias[1] > 0.0


def density(h, y, noise):
    """Of an output that is a smooth function of two hidden values."""
    mean = np.sin(h[..., 0]) + 0.5 * h[..., 1]
    return np.exp(-0.5 * (y - mean) ** 2 / noise) / np.sqrt(2.0 * np.pi * noise)


def test_moments_of_a_layer_are_those_of_draws(rng):
    """Identities bui 30 and 40, with a mean that varies, noise and functions of their own."""
    Z = rng.standard_normal((5, 2))
    layer = cavity.Layer(
        (kernels.RBF(0.8, 0.9), kernels.Matern32(0.5, 1.2)),
        inducing.Points(Z),
        2,
        means.Linear([[0.5, -0.3], [0.2, 0.4]], [0.1, 0.0]),
        0.05,
    )
    beliefs = [
        InducingBelief(
            rng.standard_normal((1, 1, 5)),
            np.tril(0.3 * rng.standard_normal((1, 5, 5))),
            np.zeros(()),
        )
        for _ in range(2)
    ]
    process = layer.process(layer.views(1e-9), beliefs)
    centre, var = np.array([[0.3, -0.2]]), np.array([[0.4, 0.1]])
    mean, *parts = process.moments_under(GaussianInputs(centre, var))
    spread = sum(parts)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    weights = np.outer(weights, weights).ravel() / np.sum(weights) ** 2
    at_nodes, var_at_nodes = process.moments(centre + np.sqrt(var) * grid)
    expected = weights @ at_nodes
    # the kernel without closed expectations has a kink, where quadrature is less accurate
    accuracy = np.array([1e-8, 1e-3])
    np.testing.assert_allclose((mean[0] - expected) / expected, 0.0, atol=accuracy[1])
    assert mean[0, 0] == pytest.approx(expected[0], rel=accuracy[0])
    _, *full = process.moments_under(GaussianInputs(centre, np.diag(var[0])[None]))
    assert_close(sum(full), spread, "factorised")
    within = weights @ var_at_nodes
    error = np.abs(spread[0] - within - weights @ (at_nodes - expected) ** 2) / spread[0]
    assert np.all(error < accuracy), error


def wide_model(Z, likelihood, width=1, **settings):
    """Two hidden functions about the inputs, with a skip connection and functions of their own."""
    kernel = (kernels.RBF(0.5, 1.0), kernels.Matern52(0.3, 2.0))
    points = (inducing.Points(Z), inducing.Points(Z[:4]))
    return cavity.DeepGP(
        [
            cavity.Layer(kernel, points, 2, means.Identity(), 0.01),
            cavity.Layer(
                kernels.RBF(1.0, 1.0),
                inducing.Points(np.column_stack([Z, Z])),
                width,
                skip_connection=True,
            ),
        ],
        likelihood,
    )


@pytest.fixture(scope="module")
def plane():
    random = np.random.default_rng(3)
    X, Z = random.uniform(-2.0, 2.0, (24, 2)), random.uniform(-2.0, 2.0, (6, 2))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * random.standard_normal(24)
    return X, y, Z


def test_minibatches_are_unbiased(plane):
    """Identity bui 27: the mean over a partition, with the points that each row keeps."""
    X, y, Z = plane
    model = wide_model(Z, likelihoods.Gaussian(0.1))
    data = prepare(X, y, power=0.5)
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(3, kept=True))
    whole, _ = energy_at(model, data, method)
    parts = [
        energy_at(
            model,
            some_rows(data, jnp.arange(start, 24, 3)),
            method,
            total=data.rows_observed,
            scale=3.0,
        )[0]
        for start in range(3)
    ]
    assert_close(np.mean(parts), whole, "factorised")
    in_chunks, _ = energy_at(model, dataclasses.replace(data, chunk=16), method)
    assert_close(in_chunks, whole, "factorised")


@pytest.mark.slow
def test_sizes_are_functions_that_share_a_kernel(rng):
    """The same energy as with a kernel for each, also where outputs are missing."""
    X, Y = rng.standard_normal((20, 2)), rng.standard_normal((20, 3))
    Y[:4, 1], Y[2:9, 2] = np.nan, np.nan
    kernel, other = kernels.RBF(0.5, 1.0), kernels.RBF(0.1, 2.0)

    def model(kernels_of, **sizes):
        below = cavity.Layer(kernels_of, inducing.Points(X[:5]), 3, **sizes)
        last = cavity.Layer(kernels_of, inducing.Points(Z), 3, **sizes)
        return cavity.DeepGP([below, last], likelihoods.Gaussian(0.1))

    Z = rng.standard_normal((4, 3))
    data = prepare(X, Y, power=0.5, missing="skip")
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(3))
    shared, each = model((kernel, other), sizes=(1, 2)), model((kernel, other, other))
    found, (sites,) = energy_at(shared, data, method)
    apart = [
        jax.tree.map(lambda x, i=i: x[i : i + 1], s) for s in sites for i in range(len(s.mean))
    ]
    problem = data.problem(each, method.approximation, 1e-9)
    assert_close(found, compiled_energy(problem, (tuple(apart),)), "factorised")
    again = cavity.Layer((kernel, other), inducing.Points(X[:5]), 3, sizes=[1, 2])
    assert [count for _, _, count in again.groups] == [1, 2]


def test_marginals_are_those_of_coherent_draws(plane):
    X, y, Z = plane
    model = wide_model(Z, likelihoods.Gaussian(0.1))
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(4))
    result = cavity.fit(model, X, y, method=method, max_iterations=30)
    posterior, new = result.posterior, X[:5]
    mean, var = posterior.marginals(new)
    draws = posterior.sample(new, 4000, key=jax.random.key(1))
    np.testing.assert_allclose(draws.mean(0), mean, atol=5.0 * np.sqrt(var.max() / 4000))
    np.testing.assert_allclose(draws.var(0), var, rtol=0.2)
    assert_close(np.diagonal(posterior.covariance(new)[0]), var)
    near = np.concatenate([new, new + 1e-7])
    assert np.linalg.eigvalsh(posterior.joint(near).cov).min() > -1e-10
    hidden_mean, hidden_var = posterior.hidden(new, 0)
    assert hidden_mean.shape == hidden_var.shape == (5, 2)
    with pytest.raises(ValueError, match="2 layers, counted from 0; given 2"):
        posterior.hidden(new, 2)
    with pytest.raises(ValueError, match="rows share sites in deep models"):
        result.leave_one_out()
    with pytest.raises(ValueError, match="and of deep models"):
        result.site_precisions()
    joint = posterior.joint(new)
    np.testing.assert_allclose(joint.cov, np.cov(draws.T), atol=0.2 * float(var.max()))
    predictive = posterior.predict(new)
    grid = np.linspace(-8.0, 8.0, 2001)
    density = np.exp([predictive.log_density(np.full(5, value)) for value in grid])
    np.testing.assert_allclose(np.trapezoid(density, grid, axis=0), 1.0, atol=1e-6)
    noise = float(result.model.likelihood.variance)
    np.testing.assert_allclose(predictive.var, var + noise, rtol=1e-8)


@pytest.mark.slow
def test_a_line_per_layer_says_what_it_does(plane):
    """Inner layers at their start are linear; the divergence is that of dense Gaussians."""
    X, y, Z = plane
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(4), max_sweeps=5)
    posterior = cavity.infer(
        wide_model(Z, likelihoods.Gaussian(0.1)), X, y, method=method
    ).posterior
    first, second = summarise(posterior, X)
    assert (first.width, first.points, second.width, second.points) == (2, 10, 1, 6)
    assert first.linear > 0.9 > second.linear
    assert first.departure < 0.5 < second.departure == pytest.approx(1.0)
    mean, cov = posterior.layers[1].process.belief.dense()
    dense = -np.linalg.slogdet(cov[0])[1] + np.trace(cov[0]) + mean[0] @ mean[0] - 6.0
    assert second.divergence == pytest.approx(0.5 * dense)
    assert summary_table([first, second]).count("nats") == 2
    still, _ = summarise(posterior, np.full((24, 2), 0.3))
    assert (still.departure, still.uncertainty) == (0.0, 0.0)


def test_predictions_do_not_depend_on_the_order_of_rows(plane):
    X, y, Z = plane
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(4), max_sweeps=5)
    found = cavity.infer(wide_model(Z, likelihoods.Gaussian(0.1)), X, y, method=method)
    forward, backward = (found.posterior.predict(new).mean for new in (X, X[::-1]))
    assert_close(forward, backward[::-1])


@pytest.mark.slow
def test_two_latent_functions_of_one_output(plane):
    """The noise has a function of its own, which reads the hidden values too."""
    X, y, Z = plane
    model = wide_model(Z, likelihoods.HeteroscedasticGaussian(), width=2)
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Linearised(), max_sweeps=20)
    posterior = cavity.infer(model, X, y, method=method).posterior
    assert posterior.marginals(X).mean.shape == (24, 2)
    assert_close(posterior.of_function(1).marginals(X).mean, posterior.marginals(X).mean[:, 1])
    assert np.all(np.isfinite(posterior.predict(X).var))


@pytest.mark.slow
def test_files_hold_deep_models(plane, tmp_path):
    X, y, Z = plane
    model = wide_model(Z, likelihoods.Bernoulli())
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(4), max_sweeps=5)
    found = cavity.infer(model, X, (y > 0.0).astype(float), method=method)
    cavity.fitting.save_module(tmp_path / "deep.cavity", found.posterior, {})
    posterior, _ = cavity.fitting.load_module(tmp_path / "deep.cavity")
    assert_close(posterior.predict(X).mean, found.posterior.predict(X).mean)


def test_the_table_of_parameters_names_layers(step):
    assert "layers.0.kernel.lengthscale" in str(step[2])
