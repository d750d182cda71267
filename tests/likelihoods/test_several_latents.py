"""A likelihood with two latent functions of one's own: one class, and everything follows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy import stats

import cavity
from cavity.likelihoods import AbstractCubatureLikelihood, LatentFunction, Support
from cavity.parameters import Units
from tests.tolerances import assert_close


class Dispersed(AbstractCubatureLikelihood):
    """Negative binomial counts with mean exp(f) and dispersion exp(g)."""

    support = Support.COUNTS
    latent_functions = (
        LatentFunction("log mean"),
        LatentFunction("log dispersion", Units(), start=lambda noise: np.log(0.5)),
    )

    def log_prob(self, f, y, **side):
        f, g = f
        r = jnp.exp(-g)
        growth = jax.nn.softplus(f + g)
        ways = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0)
        return ways + y * (f + g - growth) - r * growth


class HeteroscedasticByCubature(AbstractCubatureLikelihood):
    """The heteroscedastic Gaussian of which only the density is known."""

    support = Support.REAL
    latent_functions = cavity.likelihoods.HeteroscedasticGaussian.latent_functions

    def log_prob(self, f, y, **side):
        f, g = f
        return -0.5 * (jnp.log(2.0 * jnp.pi) + g + (y - f) ** 2 * jnp.exp(-g))


RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 4.0, 60))[:, None]
MEAN = np.exp(1.5 + np.sin(2.0 * X[:, 0]))
Y = RNG.poisson(MEAN * RNG.gamma(2.0, 0.5, 60)).astype(float)
OUT = jnp.array([0.0, 2.0, 9.0])
M, V = (
    jnp.array([[0.2, 1.0, 2.0], [-1.0, 0.3, -0.5]]),
    jnp.array([[0.2, 0.05, 0.1], [0.3, 0.2, 0.1]]),
)


@eqx.filter_jit
def tilted(likelihood, mean, var, y, power):
    return likelihood.tilted(mean, var, y, power)


@eqx.filter_jit
def log_power_mean(likelihood, mean, var, y, power):
    return likelihood.log_power_mean(mean, var, y, power)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_moments_are_those_of_quadrature_in_two_dimensions(power):
    t = np.linspace(-9.0, 9.0, 801)
    w = stats.norm.pdf(t)[:, None] * stats.norm.pdf(t) * (t[1] - t[0]) ** 2
    found = tilted(Dispersed(), M, V, OUT, power)
    alone = log_power_mean(Dispersed(), M, V, OUT, jnp.asarray(power))
    for i, y in enumerate(np.asarray(OUT)):
        f, g = (float(M[k, i]) + np.sqrt(float(V[k, i])) * t for k in (0, 1))
        r, mu = np.exp(-g), np.exp(f)
        log_p = stats.nbinom.logpmf(y, r, r / (r + mu[:, None]))
        expected = (
            np.log(np.sum(w * np.exp(power * log_p))) / power if power else np.sum(w * log_p)
        )
        assert_close(found.log_mean[i], expected, "fixed_point")
        assert_close(alone[i], expected, "fixed_point")
        if power:
            p = w * np.exp(power * log_p)
            for k, at in enumerate((f[:, None], g[None, :])):
                mean = np.sum(p * at) / np.sum(p)
                moved = M[k, i] + power * V[k, i] * found.slope[k, i]
                assert_close(moved, mean, "fixed_point")


def test_slopes_are_those_of_differences():
    step = 1e-4

    def value(m):
        return log_power_mean(Dispersed(), m, V, OUT, jnp.asarray(0.5))

    found = tilted(Dispersed(), M, V, OUT, 0.5)
    for k in range(2):
        shift = jnp.zeros((2, 1)).at[k].set(step)
        assert_close(
            found.slope[k], (value(M + shift) - value(M - shift)) / (2 * step), "gradient"
        )


@pytest.mark.slow
def test_equals_the_closed_forms_where_there_are_some():
    closed, general = cavity.likelihoods.HeteroscedasticGaussian(), HeteroscedasticByCubature()
    y = jnp.array([0.1, 1.5, 2.0])
    for power in (0.0, 0.5, jnp.array([0.0, 0.4, 1.0])):
        pair = (tilted(likelihood, M, V, y, power) for likelihood in (closed, general))
        for a, b in zip(*pair, strict=True):
            assert_close(b, a, "fixed_point", scale=1.0)
    known, table = closed.predictive(M, V), general.predictive(M, V)
    np.testing.assert_allclose(table.mean, known.mean, atol=1e-3)
    np.testing.assert_allclose(table.quantile(0.2), known.quantile(0.2), atol=5e-3)


def model():
    kernels = cavity.kernels.RBF(1.0, [0.7]), cavity.kernels.RBF(0.5, [2.0])
    return cavity.GP(kernels, Dispersed(), mean=(cavity.means.Constant(1.0), cavity.means.Zero()))


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_inference(power):
    result = cavity.infer(model(), X, Y, power=power)
    assert result.converged
    assert result.posterior.marginals(X).mean.shape == (60, 2)
    average = result.posterior.predict(X).mean
    assert np.corrcoef(average, MEAN)[0, 1] > 0.9


@pytest.mark.slow
def test_learning():
    start = cavity.infer(model(), X, Y)
    learned = cavity.fit(model(), X, Y, max_iterations=3)
    assert learned.log_evidence > start.log_evidence
    out = learned.posterior.predict(X[:3])
    assert np.all(np.asarray(out.quantile(0.9)) >= np.asarray(out.quantile(0.1)))
    assert np.all(np.isfinite(np.asarray(out.log_density(jnp.asarray(Y[:3])))))


@pytest.mark.slow
@pytest.mark.x32
def test_the_estimator_starts_predicts_and_samples_it():
    gp = cavity.GPRegressor(likelihood=Dispersed(), max_iterations=0, random_state=0).fit(X, Y)
    assert float(gp.posterior_.model.mean[1].value) == pytest.approx(np.log(0.5))
    mean = gp.predict(X)
    assert np.corrcoef(mean, MEAN)[0, 1] > 0.8
    latent = gp.predict_latent(X)
    assert latent.shape == (60,)
    draws = gp.sample_y(X[:5], 2000, random_state=1)
    assert draws.shape == (5, 2000)
    assert np.all((draws >= 0.0) & (draws == np.round(draws)))
    np.testing.assert_allclose(draws.mean(axis=1), mean[:5], rtol=0.25)
    low, high = gp.predict_quantiles(X[:5], [0.1, 0.9]).T
    assert np.all(np.mean(draws < low[:, None], axis=1) < 0.2)
    assert np.all(np.mean(draws > high[:, None], axis=1) < 0.2)
