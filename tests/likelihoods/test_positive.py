"""Gamma and exponential outputs against their textbook forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from cavity.likelihoods import Exponential, Gamma
from tests.likelihoods.refused import domain_error, refusal
from tests.tolerances import assert_close

Y = np.array([1e-6, 0.3, 1.0, 40.0])
F = np.array([-2.0, 0.0, 3.0])[:, None]


@pytest.mark.parametrize("shape", [0.1, 1.0, 7.0, 300.0])
def test_gamma(shape):
    law, likelihood = stats.gamma(shape, scale=np.exp(F) / shape), Gamma(shape)
    expected = law.logpdf(Y)
    assert_close(likelihood.log_prob(F, Y), expected, "factorised")
    mean, var = likelihood.predictive_moments(F, jnp.zeros_like(F))
    assert_close(mean, law.mean())
    assert_close(var, law.var())
    assert_close(likelihood.cdf(Y, F), law.cdf(Y), "factorised", scale=1.0)


def test_exponential():
    law, likelihood = stats.expon(scale=np.exp(F)), Exponential()
    assert_close(likelihood.log_prob(F, Y), law.logpdf(Y))
    mean, var = likelihood.predictive_moments(F, jnp.zeros_like(F))
    assert_close(mean, law.mean())
    assert_close(var, law.var())
    assert_close(likelihood.cdf(Y, F), law.cdf(Y))


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
def test_shape_one_is_exponential(power):
    args = jnp.array([0.3, -2.0]), jnp.array([0.7, 9.0]), jnp.array([0.1, 5.0])
    for a, b in zip(
        Gamma(1.0).tilted(*args, power), Exponential().tilted(*args, power), strict=True
    ):
        assert_close(a, b, "factorised")
    pair = Gamma(1.0).predictive(*args[:2]), Exponential().predictive(*args[:2])
    for name in ("mean", "var"):
        assert_close(*(getattr(out, name) for out in pair))
    assert_close(*(out.log_density(args[2]) for out in pair), "factorised")
    assert_close(*(out.quantile(0.8) for out in pair), "factorised")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("likelihood", [Gamma(3.0), Exponential()])
def test_units_are_a_shift(likelihood):
    """Outputs in another unit have a density divided by it, about a function that is moved."""
    m, v, y = jnp.array([0.2, -0.4]), jnp.array([0.3, 2.0]), jnp.array([0.9, 3.0])
    for power in (0.0, 0.5, 1.0):
        plain, other = (
            likelihood.tilted(m + np.log(unit), v, y * unit, power) for unit in (1.0, 1e3)
        )
        assert_close(other.log_mean, plain.log_mean - np.log(1e3), "quadrature")
        assert_close(other.slope, plain.slope, "quadrature", scale=1.0)
        assert_close(other.curvature, plain.curvature, "quadrature", scale=1.0)


@pytest.mark.parametrize("f", [-1000.0, 1000.0])
@pytest.mark.parametrize("likelihood", [Gamma(0.1), Gamma(1e6), Exponential()])
def test_far_out_it_stays_finite(likelihood, f):
    assert np.all(np.isfinite(likelihood.log_prob(jnp.asarray(f), jnp.asarray(Y))))


@pytest.mark.parametrize("likelihood", [Gamma(2.0), Exponential()])
def test_impossible_targets(likelihood):
    message = refusal(likelihood, [0.5, 0.0, -2.0, 1.0])
    assert "y has 2 values" in message
    assert "the first is 0): it takes numbers above zero" in message


def test_impossible_shape():
    assert "likelihood.shape" in domain_error(Gamma(-1.0), [1, 2, 3, 4])
