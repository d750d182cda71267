"""Gaussian noise: its power mean against quadrature, and predictions of outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from cavity.likelihoods import Gaussian, NormalPredictive
from tests.oracle import dense
from tests.tolerances import assert_close

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
CASES = [(0.3, 0.4, 1.1, 0.2), (-1.0, 0.01, 0.5, 2.0), (0.0, 1.0, 0.0, 1.0), (2.0, 0.5, -1.0, 3.0)]


@pytest.mark.parametrize("power", [0.0, 1e-4, 0.25, 0.5, 1.0])
@pytest.mark.parametrize(("mean", "var", "y", "noise"), CASES)
def test_power_mean_against_quadrature(mean, var, y, noise, power):
    """log M_a = log(E[p(y | f)^a]) / a, and E[log p(y | f)] at power 0."""
    f = mean + np.sqrt(var) * NODES
    logs = stats.norm(f, np.sqrt(noise)).logpdf(y)
    w = WEIGHTS / np.sqrt(2 * np.pi)
    expected = w @ logs if power == 0.0 else np.log(w @ np.exp(power * logs)) / power
    for a in (power, jnp.asarray(power)):
        found = Gaussian(noise).log_power_mean(
            jnp.asarray(mean), jnp.asarray(var), jnp.asarray(y), a
        )
        assert_close(found, expected, "quadrature")


def test_log_prob():
    f, y = jnp.array([0.0, 1.0]), jnp.array([0.5, -2.0])
    assert_close(Gaussian(0.3).log_prob(f, y), stats.norm(f, np.sqrt(0.3)).logpdf(y))
    noise = jnp.array([0.1, 4.0])
    expected = stats.norm(f, np.sqrt(noise)).logpdf(y)
    found = Gaussian(0.3).log_prob(f[:, None], y[:, None], noise_variance=noise[:, None])
    assert_close(found[:, 0], expected)


def test_noise_is_known_or_learned():
    """Shapes broadcast against rows and outputs."""
    assert Gaussian(0.3).noise_variance() == 0.3
    assert Gaussian([0.3, 0.1]).noise_variance().shape == (2,)
    assert Gaussian(0.3).noise_variance(jnp.ones((5, 1))).shape == (5, 1)


@pytest.mark.parametrize("power", [0.0, 1e-9, 0.3, 1.0])
def test_power_mean_of_a_block(power):
    """The tilted normaliser of a dense oracle, rows that are absent left out."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    m, C, y = rng.normal(size=4), root @ root.T, rng.normal(size=4)
    noise = rng.uniform(0.2, 1.0, 4)
    for present in (np.ones(4), np.array([1.0, 0.0, 1.0, 0.0])):
        keep = np.flatnonzero(present)
        R, D, r = np.diag(noise[keep]), C[np.ix_(keep, keep)], (y - m)[keep]
        log_p = dense.gaussian_log_density(r, np.zeros(len(keep)), R)
        if power < 1e-6:
            expected = log_p - 0.5 * np.sum(np.diag(D) / noise[keep])
        else:
            tilted = dense.gaussian_log_density(r, np.zeros(len(keep)), R / power + D)
            constant = 0.5 * (1 - power) * np.linalg.slogdet(2 * np.pi * R)[1]
            expected = (tilted + constant - 0.5 * len(keep) * np.log(power)) / power
        args = [jnp.asarray(a) for a in (m, C, y, present, noise)]
        found = Gaussian(1.0).log_power_mean_block(*args, jnp.asarray(power))
        assert_close(found, expected, "quadrature")


def test_predictive_density_integrates_to_one():
    predictive = Gaussian(0.3).predictive(jnp.array([[0.7]]), jnp.array([[1.1]]))

    def density(y):
        return np.exp(float(predictive.log_density(jnp.array([[y]]))[0, 0]))

    assert integrate.quad(density, -15, 15)[0] == pytest.approx(1.0, rel=1e-9)
    assert_close(predictive.var, [[1.4]])


def test_quantiles():
    """One number keeps the shape; several give a leading axis; each holds its share below."""
    mean, var = np.array([0.0, 3.0, -1.0]), np.array([1.0, 4.0, 0.2])
    predictive = NormalPredictive(jnp.asarray(mean), jnp.asarray(var))
    assert predictive.quantile(0.5).shape == (3,)
    assert_close(predictive.quantile(0.5), mean, scale=1.0)
    p = jnp.array([0.025, 0.5, 0.9])
    found = predictive.quantile(p)
    assert found.shape == (3, 3)
    for level, row in zip(p, found, strict=True):
        assert_close(row, stats.norm(mean, np.sqrt(var)).ppf(level), "factorised")
    wide = NormalPredictive(jnp.zeros((3, 2)), jnp.ones((3, 2)))
    assert wide.quantile(p[:2]).shape == (2, 3, 2)


def test_predictive_noise_may_be_known():
    mean, var = jnp.zeros((3, 2)), jnp.ones((3, 2))
    noise = jnp.array([0.1, 0.2, 0.3])
    predictive = Gaussian(5.0).predictive(mean, var, {"noise_variance": noise[:, None]})
    assert_close(predictive.var, 1.0 + np.tile(noise[:, None], (1, 2)))
    per_output = Gaussian([0.5, 0.7]).predictive(mean, var)
    assert_close(per_output.var, np.tile([1.5, 1.7], (3, 1)))


@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
def test_derivatives_of_the_power_mean(power):
    """S23: G = (y - m) / (noise + a v), H = -1 / (noise + a v)."""
    m, v, y, s = (jnp.asarray(x) for x in (0.3, 0.6, 1.2, 0.25))

    def value(m):
        return Gaussian(s).log_power_mean(m, v, y, power)

    assert_close(jax.grad(value)(m), (y - m) / (s + power * v))
    assert_close(jax.grad(jax.grad(value))(m), -1.0 / (s + power * v))
