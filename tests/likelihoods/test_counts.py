"""Poisson and negative binomial counts against their textbook forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy import stats

from cavity.likelihoods import AbstractQuadratureLikelihood, NegativeBinomial, Poisson, Support
from cavity.likelihoods.latent_values import initial_latents, sample
from tests.likelihoods.refused import domain_error, refusal
from tests.tolerances import assert_close

Y = np.array([0.0, 1.0, 6.0, 250.0, 1e5])
F = np.array([-3.0, 0.0, 1.7, 6.0, 11.4])
EXPOSURE = np.array([0.2, 1.0, 3.0, 10.0, 2.0])


def law(dispersion, mean):
    return stats.nbinom(1.0 / dispersion, 1.0 / (1.0 + dispersion * mean))


@pytest.mark.parametrize("exposure", [np.ones(1), EXPOSURE[:, None]])
def test_poisson(exposure):
    mean = exposure * np.exp(F)[:, None]
    found = Poisson().log_prob(F[:, None], Y, exposure=exposure)
    assert_close(found, stats.poisson(mean).logpmf(Y), "factorised")
    for moment in Poisson().predictive_moments(
        F[:, None], jnp.zeros((len(F), 1)), exposure=exposure
    ):
        assert_close(moment, mean)


@pytest.mark.parametrize("dispersion", [1e-2, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("exposure", [np.ones(1), EXPOSURE[:, None]])
def test_negative_binomial(dispersion, exposure):
    mean = exposure * np.exp(F)[:, None]
    likelihood, expected = NegativeBinomial(dispersion), law(dispersion, mean)
    found = likelihood.log_prob(F[:, None], Y, exposure=exposure)
    assert_close(found, expected.logpmf(Y), "factorised", scale=1e5)
    f = F[:, None]
    average, spread = likelihood.predictive_moments(f, jnp.zeros_like(f), exposure=exposure)
    assert_close(average, expected.mean(), "factorised")
    assert_close(spread, expected.var(), "factorised")


@pytest.mark.parametrize("dispersion", [1e-8, 1e-12])
def test_no_dispersion_is_poisson(dispersion):
    """log p differs by d ((y - mu)² - y) / 2 and terms in d²; at 1e-12 by nothing."""
    y, f = Y[:4], F[:4, None]
    limit = np.asarray(Poisson().log_prob(f, y))
    found = np.asarray(NegativeBinomial(dispersion).log_prob(f, y))
    first = 0.5 * dispersion * ((y - np.exp(f)) ** 2 - y)
    assert_close(found, limit + first, "factorised", scale=1e-2)


def test_the_two_ways_to_the_ratio_of_gamma_functions_meet():
    """Stirling's series takes over at a shape of 30."""
    y = jnp.array([0.0, 1.0, 3.0, 40.0, 1e4])
    f = jnp.full(5, 2.0)
    value = jax.jit(lambda d: NegativeBinomial(d).log_prob(f, y))
    below, above = (jnp.asarray((1.0 + s) / 30.0) for s in (-1e-13, 1e-13))
    assert_close(value(below), value(above), "factorised")
    slope = jax.jit(jax.jacobian(value))
    assert_close(slope(below), slope(above), "factorised")


@pytest.mark.parametrize("f", [-1000.0, 1000.0])
@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(1e-8), NegativeBinomial(5.0)])
def test_far_out_it_stays_finite(likelihood, f):
    assert np.all(np.isfinite(likelihood.log_prob(jnp.asarray(f), jnp.asarray(Y))))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mean", [0.4, 25.0, 290.0, 320.0, 5e3, 1e7])
@pytest.mark.parametrize("dispersion", [0.0, 1e-8, 1e-4, 3e-3, 0.1, 3.0])
def test_distribution_function(mean, dispersion):
    """Also where counts are many and it comes from an expansion."""
    expected = law(dispersion, mean) if dispersion else stats.poisson(mean)
    steps = np.array([-3.0, -1.0, -0.1, 0.0, 1e-3, 0.2, 1.0, 4.0])
    y = np.floor(np.maximum(mean + np.sqrt(mean + dispersion * mean**2) * steps, 0.0))
    likelihood = NegativeBinomial(dispersion) if dispersion else Poisson()
    found = np.asarray(likelihood.cdf(jnp.asarray(y), jnp.full(8, np.log(mean))))
    np.testing.assert_allclose(found, expected.cdf(y), atol=1e-6)
    below = likelihood.cdf(jnp.array([-1.0, -0.5]), jnp.full(2, np.log(mean)))
    assert np.all(np.asarray(below) == 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(0.2)])
def test_exposures_multiply_the_rate(likelihood):
    """An exposure is a shift of f, in everything."""
    m, v, y = jnp.array([0.3, -1.0]), jnp.array([0.4, 0.1]), jnp.array([2.0, 9.0])
    side = {"exposure": jnp.array([4.0, 0.1])}
    moved = m + jnp.log(side["exposure"])
    plain, other = likelihood.predictive(moved, v), likelihood.predictive(m, v, side)
    assert_close(other.mean, plain.mean)
    assert_close(other.var, plain.var)
    assert_close(other.log_density(y), plain.log_density(y), "factorised")
    assert np.array_equal(other.quantile(0.7), plain.quantile(0.7))
    for power in (0.0, 0.5):
        pair = likelihood.tilted(moved, v, y, power), likelihood.tilted(m, v, y, power, side)
        for a, b in zip(*pair, strict=True):
            assert_close(a, b, "quadrature", scale=1.0)
    found = initial_latents(likelihood, np.asarray(y), exposure=np.asarray(side["exposure"]))
    assert_close(found + np.log(side["exposure"]), initial_latents(likelihood, np.asarray(y)))


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(0.3)])
def test_drawn_counts_have_the_exposures_of_their_rows(likelihood):
    """Means and shares of zeros, within five standard errors."""
    exposure, f = np.array([0.2, 1.0, 7.0]), np.array([0.3, 0.9, -0.4])
    values, side = jnp.broadcast_to(f, (4000, 3)), {"exposure": jnp.asarray(exposure)}
    draws = np.asarray(jax.jit(sample)(likelihood, jax.random.key(0), values, side))
    mean = exposure * np.exp(f)
    expected = law(0.3, mean) if isinstance(likelihood, NegativeBinomial) else stats.poisson(mean)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * expected.std() / np.sqrt(4000))
    zeros, chance = np.mean(draws == 0.0, axis=0), expected.pmf(0)
    assert np.all(np.abs(zeros - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000))


def test_predictions_of_large_counts():
    """Quantiles of a wide distribution: those of the rate, which is log-normal."""
    m, v = np.log(2e6), 0.25
    out = Poisson().predictive(jnp.array([m]), jnp.array([v]))
    rate = stats.lognorm(np.sqrt(v), scale=np.exp(m))
    for level in (0.05, 0.5, 0.95):
        assert float(out.quantile(level)[0]) == pytest.approx(rate.ppf(level), rel=1e-4)
    assert_close(out.mean, [rate.mean()])
    assert_close(out.var, [rate.mean() + rate.var()])


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(0.5)])
def test_impossible_targets(likelihood):
    message = refusal(likelihood, [0, 2, -3, 1])
    assert "y has 1 value" in message
    assert "the first is -3): it takes counts 0, 1, 2, ..." in message
    assert "the first is 1.5" in refusal(likelihood, [0, 1.5, 2.5, 1])


@pytest.mark.parametrize("dispersion", [0.0, -1.0])
def test_impossible_dispersion(dispersion):
    assert "likelihood.dispersion" in domain_error(NegativeBinomial(dispersion), [0, 1, 2, 3])


class Plain(AbstractQuadratureLikelihood):
    """Poisson counts, of which the package knows only the density."""

    rate: float
    support = Support.COUNTS
    log_concave = True

    def log_prob(self, f, y, **side):
        return y * (f + jnp.log(self.rate)) - self.rate * jnp.exp(f) - gammaln(y + 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [3.0, 5e3, 1e6])
def test_counts_of_any_size_without_a_distribution_function(rate):
    mean, var = jnp.array([0.1, -0.5]), jnp.array([0.01, 0.2])
    found = Plain(rate).predictive(mean, var)
    exposure = jnp.full(2, rate)
    known = Poisson().predictive(mean, var, {"exposure": exposure})
    np.testing.assert_allclose(found.mean, known.mean, rtol=1e-3)
    np.testing.assert_allclose(found.var, known.var, rtol=1e-2)
    np.testing.assert_allclose(found.quantile(0.5), known.quantile(0.5), rtol=5e-3, atol=1.0)
