"""Networks whose rows share one site on the weights of each unit, and integrated parameters."""

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np
import pytest

import cavity
from cavity import diagnostics, fitting, initialisation, likelihoods, weights
from cavity.learning.data.arrays import prepare
from cavity.learning.data.survey import survey
from cavity.learning.data.training_data import Minibatch
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.likelihoods import Integrated
from cavity.parameters import INTEGRATED, bijections, priors
from cavity.parameters.gaussian_scale import GaussianScales
from tests.tolerances import assert_close

RNG = np.random.default_rng(4)
X = RNG.uniform(-2.0, 2.0, (24, 2))
Y = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(24)
NOISE = likelihoods.Gaussian(0.05)
INTEGRATED_NOISE = Integrated(NOISE, {"variance": priors.LogNormal(0.05, 0.7)})
TIED = cavity.TiedPowerEP(max_sweeps=2000, tolerance=1e-9)


def network(hidden: Any = 2, likelihood: Any = NOISE, **settings: Any) -> Any:
    settings = {"output": weights.Gaussian(1.6), "bias": 0.7} | settings
    return cavity.Network(hidden, weights.Gaussian([0.5, 0.8]), "erf", likelihood, **settings)


@pytest.fixture(scope="module")
def start():
    return initialisation.network_at_mode(network(), X, Y)


def objective(power, model):
    data = prepare(X, Y, power=power)
    return Objective(as_dtype(model, data), data, method=TIED, jitter=1e-8)


# ---- one site for all rows


def test_power_zero_ends_where_private_sites_do(start):
    """Both are the variational optimum under the moments of the layers."""
    private = cavity.infer(start, X, Y, power=0.0)
    tied = cavity.infer(start, X, Y, power=0.0, method=TIED)
    assert private.converged
    assert tied.converged
    assert tied.log_evidence == pytest.approx(private.log_evidence, abs=1e-5)
    for a, b in zip(tied.posterior.marginals(X), private.posterior.marginals(X), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)
    processes: Any = tied.posterior, private.posterior
    one, other = (posterior.process.relevance() for posterior in processes)
    np.testing.assert_allclose(one, other, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_equal_rows_share_their_site(start, power):
    """bui 26 for weights: private sites of equal rows are tied."""
    x, y = np.tile([[0.4, -1.0]], (3, 1)), np.full(3, 0.8)
    private = cavity.infer(start, x, y, power=power)
    tied = cavity.infer(start, x, y, power=power, method=TIED)
    assert private.converged
    assert tied.log_evidence == pytest.approx(private.log_evidence, abs=1e-6)


def test_a_straight_unit_is_the_linear_model():
    """At power 0 its evidence is exact: Gaussian weights and noise."""
    straight = {"output_weights": [1.0, 0.0], "intercept": 0.7}
    prior = weights.Gaussian([0.5, 0.8])
    unit = cavity.Network(1, prior, "identity", NOISE, **straight)
    tied = cavity.infer(unit, X, Y, power=0.0, method=TIED)
    linear = cavity.infer(cavity.LinearModel(prior, NOISE, intercept=0.7), X, Y)
    assert tied.log_evidence == pytest.approx(linear.log_evidence, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_minibatches_are_unbiased_and_gradients_differences(power):
    """Of a deeper network with a linear part, whose noise is integrated out."""
    model = network((2, 2), INTEGRATED_NOISE, linear=True)
    fn = objective(power, model)
    point = fn.first + 0.05 * np.random.default_rng(1).standard_normal(fn.size)
    value, slope = fn(point)
    batches = [Minibatch(rows.size, rows) for rows in np.split(np.arange(24), 4)]
    parts = [fn.on_rows(point, batch, 4.0) for batch in batches]
    assert_close(np.mean([p[0] for p in parts]), value, "factorised")
    assert_close(np.mean([p[1] for p in parts], axis=0), slope, "factorised")
    way = np.random.default_rng(2).standard_normal(fn.size)
    expected = (fn(point + 1e-5 * way)[0] - fn(point - 1e-5 * way)[0]) / 2e-5
    assert slope @ way == pytest.approx(expected, rel=1e-6)


def test_what_tied_sites_are_not_for(start):
    sparse = dataclasses.replace(start, output=weights.Laplace(1.0))
    with pytest.raises(ValueError, match=r"output is Laplace.*give cavity.weights.Gaussian"):
        cavity.infer(sparse, X, Y, method=TIED)
    natural = cavity.TiedPowerEP(batch=8, natural=0.1)
    with pytest.raises(ValueError, match="leave natural=None"):
        cavity.fit(start, X, Y, method=natural)
    with pytest.raises(ValueError, match="no blocks: leave blocks=None"):
        cavity.infer(start, X, Y, power=0.5, blocks=np.arange(24) // 12)
    with pytest.raises(ValueError, match="no latent inputs and no hidden values"):
        cavity.infer(start, X, Y, method=cavity.TiedPowerEP(hidden_sites=True))
    tied = cavity.infer(start, X, Y, method=cavity.TiedPowerEP(max_sweeps=2))
    with pytest.raises(ValueError, match="one function each"):
        tied.site_precisions()
    with pytest.raises(ValueError, match="single rows cannot be left out"):
        tied.leave_one_out()


def test_batches_start_as_rows_in_memory_do():
    """Starting deviations count all rows, and come from some of them."""
    x, y = np.tile(X, (100, 1)), np.tile(Y, 100)
    whole = prepare(x, y, power=0.5)
    halves = fitting.Batches([(x[:1200], y[:1200]), (x[1200:], y[1200:])], size=1200)
    batches = survey(halves, NOISE, power=0.5, missing="error")
    precisions = []
    model = as_dtype(network(), whole)
    for data in (whole, batches, prepare(X, Y, power=0.5)):
        fn: Any = Objective(model, data, method=TIED, jitter=1e-8)
        logs = np.diagonal(fn.empty[0][0].raw, axis1=1, axis2=2)
        precisions.append(np.exp(-2.0 * logs) - 1.0)
    np.testing.assert_allclose(precisions[0], precisions[1], rtol=0.1)
    np.testing.assert_allclose(precisions[0], 100.0 * precisions[2], rtol=0.1)


# ---- parameters integrated out


def test_integrated_noise_of_a_straight_unit_is_that_of_the_linear_model():
    straight = {"output_weights": [1.0, 0.0], "intercept": 0.7}
    prior = weights.Gaussian([0.5, 0.8])
    unit = cavity.Network(1, prior, "identity", INTEGRATED_NOISE, **straight)
    linear = cavity.LinearModel(prior, INTEGRATED_NOISE, intercept=0.7)
    one, other = (cavity.infer(model, X, Y, power=0.5) for model in (unit, linear))
    assert one.converged
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-7)
    names = "likelihood.variance"
    a, b = (diagnostics.integrated_parameters(r.posterior)[names].median for r in (one, other))
    assert a == pytest.approx(b, rel=1e-6)
    assert_close(one.leave_one_out(), other.leave_one_out(), "fixed_point")


@pytest.mark.slow
def test_under_a_narrowing_prior_noise_is_held(start):
    held = cavity.infer(start, X, Y, power=1.0).log_evidence
    gaps = []
    for deviation in (1e-1, 1e-3):
        location: Any = np.log([0.05])
        spread: Any = np.array([deviation])
        scales = GaussianScales(("variance",), ("log",), location, spread)
        noise = eqx.tree_at(lambda n: n.scales, INTEGRATED_NOISE, scales)
        model = eqx.tree_at(lambda m: m.likelihood, start, noise)
        gaps.append(abs(cavity.infer(model, X, Y, power=1.0).log_evidence - held))
    assert gaps[1] < 1e-4 < gaps[0]


def test_a_mode_is_found_with_noise_at_its_prior():
    some: Any = initialisation.network_at_mode(network(), X, Y, at_most=12)
    assert np.all(np.isfinite(some.start.hidden))
    found: Any = initialisation.network_at_mode(network(likelihood=INTEGRATED_NOISE), X, Y)
    held: Any = initialisation.network_at_mode(network(), X, Y)
    np.testing.assert_allclose(found.start.hidden, held.start.hidden, atol=1e-6)
    with pytest.raises(ValueError, match="at_most is a number of rows"):
        initialisation.network_at_mode(network(), X, Y, at_most=0)


@pytest.mark.slow
def test_noise_is_learned_then_released(start):
    maps = eqx.tree_at(lambda m: m.likelihood.variance, bijections(start), INTEGRATED)
    densities = eqx.tree_at(
        lambda m: m.likelihood.variance, priors.flat(start), priors.LogNormal(0.05, 0.7)
    )
    options: Any = {"bijections": maps, "priors": densities, "max_iterations": 2}
    result = cavity.fit(start, X, Y, power=0.5, **options)
    assert result.sites.converged
    assert set(diagnostics.integrated_parameters(result.posterior)) == {"likelihood.variance"}
    options["method"] = cavity.TiedPowerEP(batch=8, max_sweeps=20)
    del options["max_iterations"]
    tied = cavity.fit(start, X, Y, power=0.5, **options)
    assert not tied.converged  # after so few steps, without a grid of values in their place
    assert set(diagnostics.integrated_parameters(tied.posterior)) == {"likelihood.variance"}
    wrong = eqx.tree_at(lambda m: m.prior.variance, bijections(start), INTEGRATED)
    densities = eqx.tree_at(lambda m: m.prior.variance, densities, priors.LogNormal(1.0, 1.0))
    with pytest.raises(ValueError, match=r"prior.variance cannot be INTEGRATED"):
        cavity.fit(start, X, Y, bijections=wrong, priors=densities)
