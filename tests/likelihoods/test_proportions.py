"""Beta shares against their textbook form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from cavity.likelihoods import Beta
from tests.likelihoods.refused import domain_error, refusal
from tests.tolerances import assert_close

Y = np.array([1e-9, 0.02, 0.5, 0.9, 1.0 - 1e-9])
F = np.array([-4.0, 0.0, 1.5])[:, None]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("concentration", [0.1, 1.0, 12.0, 1e4])
def test_beta(concentration):
    mean = special.expit(F)
    law = stats.beta(mean * concentration, (1.0 - mean) * concentration)
    likelihood = Beta(concentration)
    expected = law.logpdf(Y)
    assert_close(likelihood.log_prob(F, Y), expected, "factorised")
    average, spread = likelihood.predictive_moments(jnp.asarray(F), jnp.full_like(F, 1e-20))
    assert_close(average, law.mean())
    assert_close(spread, law.var())
    assert_close(likelihood.cdf(Y, F), law.cdf(Y), "factorised", scale=1.0)


def test_far_out_it_is_a_line():
    """Where a parameter underflows, log p falls by one with every unit of f."""
    f = jnp.array([-1e4, -900.0, 900.0, 1e4])
    value = lambda f: Beta(5.0).log_prob(f, jnp.asarray(Y)[:, None])  # noqa: E731
    found, slope = jax.jvp(value, (f,), (jnp.ones(4),))
    assert np.all(np.isfinite(found))
    assert_close(slope, np.tile([1.0, 1.0, -1.0, -1.0], (5, 1)))


@pytest.mark.parametrize("concentration", [0.3, 6.0, 500.0])
def test_slope(concentration):
    """The landmark's derivative is that of the density."""
    likelihood, f = Beta(concentration), jnp.linspace(-30.0, 30.0, 25)
    y = jnp.asarray(Y)[:, None]
    _, expected = jax.jvp(lambda f: likelihood.log_prob(f, y), (f,), (jnp.ones(25),))
    assert_close(likelihood._slope(f, y), expected, "quadrature", scale=1.0)


@pytest.mark.slow
def test_one_minus_a_share():
    """The other share has the other sign of f."""
    m, v, y = jnp.array([0.7, -2.0]), jnp.array([0.2, 3.0]), jnp.array([0.3, 0.6])
    for power in (0.0, 0.5, 1.0):
        moments = eqx.filter_jit(Beta(9.0).tilted)
        one, other = moments(m, v, y, power), moments(-m, v, 1.0 - y, power)
        assert_close(one.log_mean, other.log_mean, "quadrature")
        assert_close(one.slope, -other.slope, "quadrature")
    one, other = Beta(9.0).predictive(m, v), Beta(9.0).predictive(-m, v)
    assert_close(one.quantile(0.2), 1.0 - other.quantile(0.8), "quadrature")


def test_impossible_targets():
    message = refusal(Beta(3.0), [0.5, 1.0, 0.0, 0.2])
    assert "y has 2 values" in message
    assert "the first is 1): it takes numbers strictly between 0 and 1" in message


def test_impossible_concentration():
    assert "likelihood.concentration" in domain_error(Beta(0.0), [0.1, 0.2, 0.3, 0.4])
