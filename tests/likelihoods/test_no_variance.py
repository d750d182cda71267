"""Power means of functions without variance, and with next to none: the density at the mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.likelihoods import (
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
)
from tests.tolerances import assert_close

VAR = np.array([0.0, 1e-40, 1e-22, 1e-16, 1e-14])
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
    """No jump where nodes take the place of derivatives, near a variance of 1e-9 here."""
    likelihood = StudentT(df=4.0, scale=0.1)
    var = jnp.geomspace(1e-12, 1e-8, 60)
    mean, y = jnp.full(60, 0.3), jnp.full(60, 0.35)
    value, slope, curvature = likelihood.tilted(mean, var, y, power)
    limit = likelihood.tilted(mean, jnp.zeros(60), y, power)
    change = 0.5 * var * (limit.curvature + power * limit.slope**2)
    np.testing.assert_allclose(value, limit.log_mean + change, rtol=1e-10)
    fit = np.polyfit(np.asarray(var), np.asarray(slope), 1)
    np.testing.assert_allclose(slope, np.polyval(fit, var), rtol=1e-9)
    np.testing.assert_allclose(curvature, limit.curvature, rtol=1e-4)


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
    for label in (0.0, 1.0):
        y = jnp.full(2, label)
        found = largest.tilted(f, jnp.zeros((3, 2)), y, power)
        assert_close(found.log_mean, largest.log_prob(f, y))
        np.testing.assert_array_equal(found.slope, 0.0)


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
