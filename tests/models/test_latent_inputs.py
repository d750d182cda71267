"""Latent inputs of deep models: energies by sums over grids, limits, densities of two modes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import fitting, inducing, kernels, likelihoods
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import some_rows
from cavity.learning.infer import as_dtype
from cavity.models.deep.summary import summarise
from tests.models.tied_deep_toy import (
    cavity_of,
    compiled_energy,
    energy_at,
    function_at,
    random_sites,
)
from tests.tolerances import assert_close

NODES = fitting.Nodes(10)
TIED = cavity.TiedPowerEP(propagation=NODES)
Z = np.array([[-0.9, 0.4], [0.1, -1.0], [0.2, 1.1], [0.8, -0.3]])


def table(count=6):
    random = np.random.default_rng(6)
    X = random.uniform(-1.0, 1.0, (count, 1))
    y = np.sign(random.standard_normal(count)) + 0.1 * random.standard_normal(count)
    y[2] = np.nan
    return X, y


def one_layer(lengthscale=(0.7, 0.9), latent_inputs=1):
    columns = 1 + latent_inputs
    kernel = kernels.RBF(1.1, np.asarray(lengthscale)[:columns])
    layer = cavity.Layer(kernel, inducing.Points(Z[:, :columns]))
    return cavity.DeepGP([layer], likelihoods.Gaussian(0.1), latent_inputs)


def two_layers():
    hidden = cavity.Layer(kernels.RBF(1.1, [0.7, 0.9]), inducing.Points(Z), noise_variance=0.05)
    last = cavity.Layer(kernels.RBF(0.9, 0.8), inducing.Points(Z[:, :1]))
    return cavity.DeepGP([hidden, last], likelihoods.Gaussian(0.1), 1)


def dense_energy(tied, inputs, X, y, power, *, hidden_noise=None):
    """The energy by sums over grids of latent inputs, and of hidden values where there are any."""
    seen = np.flatnonzero(~np.isnan(y))
    cavities = []
    for site in tied:
        raw = np.asarray(site.raw)[0]
        root = np.tril(raw, -1) + np.diag(np.exp(np.diag(raw)))
        cavities.append(cavity_of(np.asarray(site.mean)[0], root, power, len(seen)))
    log_z = sum(scale for _, _, scale in cavities)
    z, w = np.polynomial.hermite_e.hermegauss(NODES.count)
    w = w / w.sum()

    def term(values, m, v, mass):
        """Of one row at known inputs of the last layer, whose grid has these masses."""
        if power == 0.0:
            return mass @ (stats.norm.logpdf(values, m, np.sqrt(0.1)) - 0.5 * v / 0.1)
        constant = 0.5 * (1.0 - power) * np.log(2.0 * np.pi * 0.1) - 0.5 * np.log(power)
        density = stats.norm.pdf(values, m, np.sqrt(v + 0.1 / power))
        return (constant + np.log(mass @ density)) / power

    for n in seen:
        mean, deviation = (np.asarray(a)[n, 0] for a in (inputs.mean, inputs.log_deviation))
        deviation = np.exp(deviation)
        log_z -= 0.5 * (mean**2 + deviation**2 - 1.0) - np.log(deviation)
        for share, point in zip(w, mean + deviation * z, strict=True):
            at = np.array([[X[n, 0], point]])
            m, v = function_at(at, Z, 1.1, np.array([0.7, 0.9]), *cavities[0][:2])
            if hidden_noise is None:
                log_z += share * term(y[n], m, v, np.ones(1))
                continue
            h = m + np.sqrt(v + hidden_noise) * z
            m, v = function_at(h[:, None], Z[:, :1], 0.9, 0.8, *cavities[1][:2])
            log_z += share * term(y[n], m, v, w)
    return -log_z


@pytest.mark.sampled(1, "one layer-0.0")
@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("model", [one_layer(), two_layers()], ids=["one layer", "two layers"])
def test_energy_is_that_of_sums_over_grids(model, power):
    """Logarithms are averaged over latent inputs, powers over functions and hidden values."""
    X, y = table()
    data = prepare(X, y, power=power, missing="skip")
    value, ((*tied, inputs),) = energy_at(model, data, TIED)
    noise = model.layers[0].noise_variance
    hidden_noise = None if noise is None else float(noise)
    expected = dense_energy(tied, inputs, X, y, power, hidden_noise=hidden_noise)
    assert_close(value, expected, "factorised")


def test_sites_on_hidden_values_go_with_latent_inputs():
    """Sites t = 1 change nothing, others do."""
    X, y = table()
    data = prepare(X, y, power=0.5, missing="skip")
    sited = dataclasses.replace(TIED, hidden_sites=True)
    expected, ((*tied, inputs),) = energy_at(two_layers(), data, TIED)
    problem = data.problem(as_dtype(two_layers(), data), sited.approximation, 1e-9)
    ((*_, empty),) = problem.empty_sites()
    assert_close(float(compiled_energy(problem, ((*tied, inputs, empty),))), expected)
    moved = jax.tree.map(lambda leaf: leaf + 0.5, empty)
    changed = float(compiled_energy(problem, ((*tied, inputs, moved),)))
    assert changed != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_latent_inputs_that_a_kernel_ignores_change_nothing(power):
    """At their prior the energy is that of the model without; elsewhere a divergence more."""
    X, y = table()
    data = prepare(X, y, power=power, missing="skip")
    plain, (tied,) = energy_at(one_layer((0.7,), latent_inputs=0), data, TIED)
    model = one_layer((0.7, 1e9))
    problem = data.problem(as_dtype(model, data), TIED.approximation, 1e-9)
    ((_, inputs),) = problem.empty_sites()
    mean, log_deviation = np.full(inputs.mean.shape, 0.4), np.full(inputs.mean.shape, -0.2)
    more = dataclasses.replace(
        inputs, mean=jnp.asarray(mean), log_deviation=jnp.asarray(log_deviation)
    )
    prior = jax.tree.map(jnp.zeros_like, inputs)
    at_prior, elsewhere = (
        float(compiled_energy(problem, ((*tied, store),))) for store in (prior, more)
    )
    divergence = 0.5 * (0.4**2 + np.exp(-0.4) - 1.0) + 0.2
    assert_close(at_prior, plain, "factorised")
    assert_close(elsewhere, plain + 5.0 * divergence, "factorised")


def test_minibatches_are_unbiased():
    X, y = table(12)
    data = prepare(X, y, power=0.5, missing="skip")
    model = two_layers()
    problem = data.problem(as_dtype(model, data), TIED.approximation, 1e-9)
    sites = random_sites(problem)

    def value(some, **batch):
        rows = some.problem(as_dtype(model, data), TIED.approximation, 1e-9, **batch)
        return float(compiled_energy(rows, sites))

    settings = {"total": data.rows_observed, "scale": 3.0}
    parts = [value(some_rows(data, jnp.arange(i, 12, 3)), **settings) for i in range(3)]
    whole = value(data)
    assert_close(np.mean(parts), whole, "factorised")
    assert_close(value(dataclasses.replace(data, chunk=8)), whole, "factorised")


@pytest.fixture(scope="module")
def two_modes():
    """Outputs of one sign or the other at random, and fits with and without a latent input."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.0, 1.0, (80, 1))
    y = np.sign(random.standard_normal(80)) + 0.1 * random.standard_normal(80)
    points = np.column_stack([random.uniform(-1.0, 1.0, 12), random.standard_normal(12)])

    def learned(latent_inputs):
        columns = 1 + latent_inputs
        layer = cavity.Layer(
            kernels.RBF(1.0, np.ones(columns)), inducing.Points(points[:, :columns])
        )
        model = cavity.DeepGP([layer], likelihoods.Gaussian(0.1), latent_inputs)
        return cavity.fit(model, X[:40], y[:40], method=TIED, max_iterations=120)

    return X[40:], y[40:], learned(0), learned(1)


def test_densities_of_two_modes_are_learned(two_modes):
    """A sparse GP has one wide mode; a latent input says which of two a row has."""
    X, y, plain, latent = two_modes
    density = {
        name: float(np.mean(fit.posterior.predict(X).log_density(y)))
        for name, fit in (("plain", plain), ("latent", latent))
    }
    assert density["latent"] > density["plain"] + 0.3
    assert latent.log_evidence > plain.log_evidence + 5.0
    grid = np.linspace(-4.0, 4.0, 801)
    predictive = latent.posterior.predict(X[:2])
    at = np.exp([predictive.log_density(np.full(2, value)) for value in grid])
    np.testing.assert_allclose(np.trapezoid(at, grid, axis=0), 1.0, atol=1e-6)
    assert np.all(at[np.abs(grid) < 0.05].max(axis=0) < 0.5 * at[grid > 0.5].max(axis=0))


def test_predictions_average_over_the_prior_of_latent_inputs(two_modes):
    """Marginals against a grid of latent inputs, and against coherent draws."""
    X, _, _, latent = two_modes
    posterior, new = latent.posterior, X[:4]
    mean, var = posterior.marginals(new)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    layer = posterior.layers[0].process
    at = [layer.moments(np.column_stack([new, np.full(4, value)])) for value in z]
    means, variances = (np.asarray([pair[i][:, 0] for pair in at]) for i in range(2))
    expected = w @ means
    np.testing.assert_allclose(mean, expected, atol=0.02)
    np.testing.assert_allclose(var, w @ (variances + means**2) - expected**2, rtol=0.05)
    draws = posterior.sample(new, 2000, key=jax.random.key(1))
    np.testing.assert_allclose(draws.mean(0), mean, atol=5.0 * np.sqrt(var.max() / 2000))
    np.testing.assert_allclose(draws.var(0), var, rtol=0.2)
    (summary,) = summarise(posterior, new)
    assert summary.width == 1
    assert posterior.hidden(new, 0).mean.shape == (4, 1)


REFUSED = {
    "moments": ({"propagation": fitting.Moments()}, "give propagation=cavity.fitting.Nodes"),
    "natural": ({"batch": 4, "natural": 0.1}, "leave natural=None"),
    "sites": ({"input_sites": True}, "leave input_sites=False"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_do_not_fit_are_named(name):
    settings, message = REFUSED[name]
    method = cavity.TiedPowerEP(**settings)
    with pytest.raises(ValueError, match=message):
        cavity.infer(one_layer(), *table(), missing="skip", method=method)


def test_models_that_do_not_fit_are_named():
    X, y = table()
    layer = cavity.Layer(kernels.RBF(), inducing.Points(Z[:, :1]))
    with pytest.raises(ValueError, match="latent_inputs is a number of inputs, given -1"):
        cavity.DeepGP([layer], likelihoods.Gaussian(), -1)
    model = cavity.DeepGP([layer], likelihoods.Gaussian(), 1)
    with pytest.raises(ValueError, match="layer 1 of 1 have 1 column, its inputs have 2"):
        cavity.infer(model, X, y, method=TIED, missing="skip")
    with pytest.raises(ValueError, match="latent inputs needs method=cavity"):
        cavity.infer(one_layer(), X, y, method=cavity.PowerEP(hidden="chain"), missing="skip")
    batches = fitting.Batches(lambda: iter([(X, np.nan_to_num(y))]))
    with pytest.raises(ValueError, match="latent inputs or hidden values of every row"):
        cavity.infer(one_layer(), batches, method=cavity.TiedPowerEP(batch=4))
