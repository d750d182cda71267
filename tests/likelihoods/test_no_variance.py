"""Power means of functions without variance, and with next to none: the density at the mean."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import cavity
from cavity.likelihoods import (
    AbstractQuadratureLikelihood,
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    HeteroscedasticGaussian,
    Laplace,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    RobustMax,
    StudentT,
    Support,
)
from tests.tolerances import assert_close

VAR = np.array([0.0, 1e-40, 1e-22, 1e-17, 1e-16])
ONE_FUNCTION = {
    "logit": (Bernoulli(), 1.0),
    "probit": (Bernoulli("probit"), 0.0),
    "student": (StudentT(), 1.0),
    "laplace": (Laplace(), 1.0),
    "poisson": (Poisson(), 2.0),
    "negative binomial": (NegativeBinomial(), 2.0),
    "gamma": (Gamma(), 0.7),
    "exponential": (Exponential(), 0.7),
    "beta": (Beta(), 0.4),
    "ordinal": (OrdinalProbit(np.array([-1.0, 1.0])), 1.0),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", ONE_FUNCTION)
def test_the_limit_is_the_density_at_the_mean(name, power):
    """Slopes are those of the log density, which is differentiated here by plain differences;
    that in the variance is (l'' + a l'^2) / 2."""
    likelihood, y = ONE_FUNCTION[name]
    mean, y = jnp.full(len(VAR), 0.3), jnp.full(len(VAR), y)
    at = lambda f: float(likelihood.log_prob(jnp.asarray(f), y[0]))  # noqa: E731
    value, h = at(0.3), 1e-3
    slope = (8 * (at(0.3 + h) - at(0.3 - h)) - (at(0.3 + 2 * h) - at(0.3 - 2 * h))) / (12 * h)
    bend = (at(0.3 + h) - 2 * value + at(0.3 - h)) / h**2
    found = likelihood.tilted(mean, jnp.asarray(VAR), y, power)
    assert_close(found.log_mean, np.full(len(VAR), value))
    assert_close(found.slope, np.full(len(VAR), slope), "factorised")
    np.testing.assert_allclose(found.curvature, bend, rtol=1e-4, atol=1e-5)

    def total(mean, var):
        return jnp.sum(likelihood.log_power_mean(mean, var, y, power))

    assert_close(total(mean, jnp.asarray(VAR)), len(VAR) * value)
    by_mean, by_var = jax.grad(total, (0, 1))(mean, jnp.asarray(VAR))
    assert_close(by_mean, np.full(len(VAR), slope), "factorised")
    np.testing.assert_allclose(by_var, 0.5 * (bend + power * slope**2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("power", [0.4, 1.0])
def test_small_variances_join_the_others(power):
    """No jump where nodes take the place of derivatives, at 100 rounding errors."""
    likelihood = StudentT(df=4.0, scale=0.1)
    var = jnp.geomspace(1e-15, 1e-12, 60)
    mean, y = jnp.full(60, 0.3), jnp.full(60, 0.35)
    value, slope, _ = likelihood.tilted(mean, var, y, power)
    limit = likelihood.tilted(mean, jnp.zeros(60), y, power)
    np.testing.assert_allclose(value, limit.log_mean, rtol=1e-9)
    np.testing.assert_allclose(slope, limit.slope, rtol=1e-6)


@pytest.mark.parametrize("power", [0.4, 1.0])
def test_kinks_are_seen_at_small_variances(power):
    """Laplace noise at its kink: log E exp(-a |f|) / a in closed form."""
    var = np.array([1e-14, 1e-12, 1e-8, 1e-6, 1e-3])
    at = power * np.sqrt(var)
    expected = (at**2 / 2 + special.log_ndtr(-at) + np.log(2.0)) / power - np.log(2.0)
    found = Laplace(1.0).tilted(jnp.zeros(5), jnp.asarray(var), jnp.zeros(5), power)
    np.testing.assert_allclose(found.log_mean, expected, atol=2e-9)
    np.testing.assert_allclose(found.slope, 0.0, atol=1e-6)


@pytest.mark.slow
def test_slopes_of_moments_at_no_variance():
    """Reverse derivatives through moments, beside rows with a variance."""
    y = jnp.array([1.0, 0.3])

    def total(likelihood, mean, var):
        return sum(jnp.sum(part) for part in likelihood.tilted(mean, var, y, 0.5))

    slopes = [
        eqx.filter_grad(lambda at: total(*at))(
            (StudentT(df=4.0, scale=0.3), jnp.array([0.2, 0.1]), jnp.array([tiny, 1.0]))
        )
        for tiny in (0.0, 1e-30)
    ]
    for one, other in zip(*(jax.tree.leaves(s) for s in slopes), strict=True):
        assert np.all(np.isfinite(one))
        assert_close(one, other, "factorised")


@pytest.mark.slow
def test_single_precision():
    likelihood, var = StudentT(), jnp.array([0.0, 1e-9, 1e-7], jnp.float32)
    mean, y = (jnp.full(3, x, jnp.float32) for x in (3.0, 3.35))
    found = likelihood.tilted(mean, var, y, 0.5)
    expected = StudentT().tilted(jnp.full(3, 3.0), jnp.zeros(3), jnp.full(3, 3.35), 0.5)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
def test_noise_level_and_largest_of_several(power):
    f, y = jnp.array([[0.3], [-0.7]]), jnp.array([1.1])
    noise = HeteroscedasticGaussian()
    value = float(noise.log_prob(f, y)[0])
    slope = jax.grad(lambda f: noise.log_prob(f, y)[0])(f)
    found = noise.tilted(f, jnp.zeros((2, 1)), y, power)
    np.testing.assert_allclose(found.log_mean, value, atol=1e-8)
    np.testing.assert_allclose(found.slope, slope, atol=1e-6)
    largest = RobustMax(3)
    f = jnp.array([[0.3, 500.0], [0.6, -1.0], [0.2, 3.0]])
    tie = largest.tilted(jnp.zeros((3, 1)), jnp.zeros((3, 1)), jnp.zeros(1), 1.0)
    assert float(tie.log_mean[0]) == pytest.approx(np.log(0.999 / 3 + 0.0005 * 2 / 3), abs=1e-6)
    for label in (0.0, 1.0):
        y = jnp.full(2, label)
        found = largest.tilted(f, jnp.zeros((3, 2)), y, power)
        assert_close(found.log_mean, largest.log_prob(f, y))
        np.testing.assert_array_equal(found.slope, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_a_row_of_zeros_under_a_linear_kernel(power):
    """Its function is known. The evidence is that of the other rows plus its own density."""
    random = np.random.default_rng(0)
    X = random.standard_normal((12, 2))
    y = (X[:, 0] > 0.2).astype(float)
    Z = cavity.inducing.Points(random.standard_normal((2, 2)))
    model = cavity.GP(cavity.kernels.Linear(), Bernoulli(), Z)
    X[3] = 0.0
    rest = np.arange(12) != 3
    whole = cavity.infer(model, X, y, power=power)
    other = cavity.infer(model, X[rest], y[rest], power=power)
    assert whole.converged
    assert whole.log_evidence == pytest.approx(other.log_evidence - np.log(2.0), abs=1e-6)
    learned = cavity.fit(model, X, y, power=power, max_iterations=2)
    assert learned.log_evidence > whole.log_evidence


@pytest.mark.parametrize("name", ["logit", "student"])
def test_what_is_no_variance_has_no_moments(name):
    """Cavities may be improper: sweeps must see that."""
    likelihood, y = ONE_FUNCTION[name]
    found = likelihood.tilted(jnp.zeros(2), jnp.array([-1e-12, -1.0]), jnp.full(2, y), 0.4)
    assert not np.any(np.isfinite(found.slope))


@jax.custom_vjp
def _square(x):
    return x**2


_square.defvjp(lambda x: (x**2, x), lambda x, slope: (2.0 * x * slope,))


@jax.custom_jvp
def _same_square(x):
    return x**2


_same_square.defjvp(lambda primals, tangents: (primals[0] ** 2, 2.0 * primals[0] * tangents[0]))


class Normal(AbstractQuadratureLikelihood):
    """A user's density with a rule of its own for derivatives."""

    square: Callable = eqx.field(static=True, default=_square)
    support = Support.REAL

    def log_prob(self, f, y, **side):
        return -0.5 * self.square(y - f) - 0.5 * jnp.log(2.0 * jnp.pi)


@pytest.mark.parametrize("square", [_square, _same_square], ids=["reverse", "forward"])
def test_densities_with_rules_of_their_own_for_derivatives(square):
    mean, var, y = jnp.array([0.3, -1.0]), jnp.array([0.0, 0.7]), jnp.ones(2)
    found = Normal(square=square).tilted(mean, var, y, 1.0)
    expected = stats.norm.logpdf(y, mean, np.sqrt(1.0 + var))
    np.testing.assert_allclose(found.log_mean, expected, rtol=1e-9)
    np.testing.assert_allclose(found.slope, (y - mean) / (1.0 + var), rtol=1e-8)
