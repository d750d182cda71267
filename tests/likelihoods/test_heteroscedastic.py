"""Two latent functions: against quadrature in two dimensions, and as a model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.graph.sites import ScalarSites
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from tests.tolerances import assert_close

NOISY = likelihoods.HeteroscedasticGaussian()
RNG = np.random.default_rng(2)
X = np.sort(RNG.uniform(0.0, 1.0, 40))[:, None]
SD = np.exp(2.0 * X[:, 0] - 2.5)
Y = np.sin(6.0 * X[:, 0]) + SD * RNG.standard_normal(40)

MEAN = jnp.array([[0.3, -0.5, 2.0, 0.0], [-1.0, 0.5, -3.0, 1.0]])
VAR = jnp.array([[0.4, 1.5, 0.01, 3.0], [0.5, 2.0, 0.3, 4.0]])
OUT = jnp.array([0.8, -0.4, 2.3, 5.0])


def model(points=None):
    parts = (kernels.RBF(1.0, 0.3), kernels.RBF(1.0, 0.5))
    chosen = None if points is None else inducing.Points(np.linspace(0.0, 1.0, points)[:, None])
    return cavity.GP(parts, NOISY, chosen, (means.Zero(), means.Constant(-3.0)))


def two_dimensions(power):
    """Power means and tilted moments on a grid over both latent values."""
    t = np.linspace(-11.0, 11.0, 1201)
    w = stats.norm.pdf(t) * (t[1] - t[0])
    found = []
    for m, v, y in zip(np.asarray(MEAN).T, np.asarray(VAR).T, np.asarray(OUT), strict=True):
        f, g = m[0] + np.sqrt(v[0]) * t[:, None], m[1] + np.sqrt(v[1]) * t[None, :]
        log = stats.norm.logpdf(y, f, np.exp(0.5 * g))
        weight = w[:, None] * w[None, :]
        if power == 0.0:
            found.append((np.sum(weight * log), None, None, None, None))
            continue
        tilted = weight * np.exp(power * (log - log.max()))
        total = tilted.sum()
        p = tilted / total
        moments = [np.sum(p * z) for z in (f, g)]
        spreads = [np.sum(p * (z - z0) ** 2) for z, z0 in zip((f, g), moments, strict=True)]
        found.append((np.log(total) / power + log.max(), *moments, *spreads))
    return [np.array(x) for x in zip(*found, strict=True)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [1.0, 0.5, 0.1])
def test_power_means_and_tilted_moments(power):
    tilted = jax.jit(lambda a: NOISY.tilted(MEAN, VAR, OUT, a))(power)
    log_mean, *expected = two_dimensions(power)
    assert_close(tilted.log_mean, log_mean, "quadrature")
    moved = MEAN + power * VAR * tilted.slope
    spread = VAR + power * VAR**2 * tilted.curvature
    for i in range(2):
        assert_close(moved[i], expected[i], "fixed_point")
        assert_close(spread[i], expected[2 + i], "fixed_point")
    assert_close(NOISY.log_power_mean(MEAN, VAR, OUT, power), log_mean, "quadrature")


def test_power_zero_is_the_expected_log_density():
    exact = NOISY.tilted(MEAN, VAR, OUT, 0.0)
    assert_close(exact.log_mean, two_dimensions(0.0)[0], "quadrature")
    near = jax.jit(lambda a: NOISY.tilted(MEAN, VAR, OUT, a))(1e-7)
    for a, b in zip(exact, near, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3)


def test_jylanki_11_small_powers_tend_to_variational_message_passing():
    """jylanki 11: f given its noise level is conjugate, so that its message is in closed form.

    Sites of f have precision E[e^-g] and shift y E[e^-g]; at power a they differ by O(a).
    """
    narrow = 0.2 * VAR[1]
    level = np.exp(0.5 * narrow - MEAN[1])
    expected = np.stack([np.asarray(OUT) * level, level])
    before = ScalarSites(0.3 * jnp.ones((1, 4)), 0.2 / VAR[:1])

    @jax.jit
    def sites(power):
        mean, var, _ = before.cavity(MEAN[:1], VAR[:1], power)
        means, variances = jnp.stack([mean[0], MEAN[1]]), jnp.stack([var[0], narrow])
        found = NOISY.tilted(means, variances, OUT, power)
        site = before.moment_match(mean, var, found.slope[:1], found.curvature[:1], power)
        return jnp.concatenate([site.shift, site.precision])

    gaps = [np.asarray(sites(power)) - expected for power in (0.05, 5e-4, 5e-5, 0.0)]
    scale = np.abs(expected)
    assert np.max(np.abs(gaps[0]) / scale) < 1.0
    assert np.max(np.abs(gaps[2]) / scale) < 2e-3
    np.testing.assert_allclose(gaps[2] / scale, 0.1 * gaps[1] / scale, rtol=0.05, atol=1e-6)
    np.testing.assert_allclose(gaps[3] / scale, 0.0, atol=1e-12)


def test_powers_that_are_zero_in_some_rows():
    powers = jnp.array([0.0, 0.5, 0.0, 1.0])
    mixed = NOISY.tilted(MEAN, VAR, OUT, powers)
    for i, power in enumerate((0.0, 0.5, 0.0, 1.0)):
        alone = NOISY.tilted(MEAN, VAR, OUT, power)
        for a, b in zip(mixed, alone, strict=True):
            assert_close(a[..., i], b[..., i], "factorised")
    values = NOISY.log_power_mean(MEAN, VAR, OUT, powers)
    assert_close(values, mixed.log_mean, "factorised")


def test_predictive_is_a_mixture_over_noise_levels():
    predictive = NOISY.predictive(MEAN, VAR)
    draws = np.random.default_rng(0).standard_normal((3, 400_000, 4))
    f, g = (m + np.sqrt(v) * d for m, v, d in zip(MEAN, VAR, draws[:2], strict=True))
    y = f + np.exp(0.5 * g) * draws[2]
    np.testing.assert_allclose(predictive.mean, y.mean(axis=0), atol=0.05)
    for level in (0.05, 0.5, 0.9):
        share = np.mean(y < np.asarray(predictive.quantile(level)), axis=0)
        np.testing.assert_allclose(share, level, atol=3e-3)
    expected = np.log(np.mean(stats.norm.pdf(OUT, f, np.exp(0.5 * g)), axis=0))
    np.testing.assert_allclose(predictive.log_density(OUT), expected, atol=0.02)
    expected = VAR[0] + np.exp(MEAN[1] + 0.5 * VAR[1])
    np.testing.assert_allclose(predictive.var, expected, rtol=1e-12)


def test_outputs_are_drawn_with_their_noise():
    f = jnp.array([[0.5], [1.2]]) * jnp.ones(20_000)
    draws = np.asarray(NOISY.sample(jax.random.key(0), f))
    assert stats.kstest(draws, stats.norm(0.5, np.exp(0.6)).cdf).pvalue > 1e-3


@pytest.mark.slow
def test_extreme_levels_stay_finite():
    mean = jnp.array([[0.0, 0.0, 5.0], [-40.0, 30.0, 0.0]])
    var = jnp.array([[1e-6, 1e4, 1.0], [1.0, 25.0, 100.0]])
    for power in (0.3, 1.0):
        found = NOISY.tilted(mean, var, jnp.zeros(3), power)
        assert all(np.all(np.isfinite(part)) for part in found)
        assert np.all(np.asarray(var + power * var**2 * found.curvature) > 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("points", [None, 8], ids=["full", "sparse"])
def test_gradient_needs_explicit_terms_only(points):
    data = prepare(X, Y, power=0.5)
    start = as_dtype(model(points), data)
    method = cavity.PowerEP(tolerance=1e-11)
    fn = Objective(start, data, method=method, jitter=0.0 if points is None else 1e-8)
    _, slope = fn(np.zeros(fn.size))
    for i in (0, 1, 2, 3, fn.size - 1):
        step = 1e-5 * np.eye(fn.size)[i]
        found = (fn(step)[0] - fn(-step)[0]) / 2e-5
        assert slope[i] == pytest.approx(found, rel=1e-5, abs=1e-6)


@pytest.mark.slow
def test_the_level_of_the_noise_is_learned():
    learned = cavity.fit(model(8), X, Y, max_iterations=30)
    predictive = learned.posterior.predict(X)
    assert np.corrcoef(np.log(predictive.var), np.log(SD))[0, 1] > 0.8
    plain = cavity.GP(kernels.RBF(1.0, 0.3), likelihoods.Gaussian(0.1), inducing.Points(X[::5]))
    assert learned.log_evidence > cavity.fit(plain, X, Y, max_iterations=30).log_evidence
    assert learned.posterior.marginals(X).mean.shape == (40, 2)
    assert learned.posterior.joint(X[:3]).cov.shape == (2, 3, 3)
    assert learned.posterior.sample(X[:3], 4, key=jax.random.key(0)).shape == (4, 3, 2)
    assert learned.leave_one_out().shape == (40,)
    assert "kernel.1.lengthscale" in str(learned)


@pytest.mark.slow
def test_one_kernel_and_mean_serve_both():
    shared = cavity.GP(kernels.RBF(1.0, 0.4), NOISY)
    twice = cavity.GP((kernels.RBF(1.0, 0.4),) * 2, NOISY, mean=(means.Zero(),) * 2)
    found = [cavity.infer(m, X, Y).log_evidence for m in (shared, twice)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_wrong_numbers_of_parts():
    with pytest.raises(ValueError, match="2 latent functions, given a tuple of 3 kernels"):
        cavity.GP((kernels.RBF(),) * 3, NOISY)
    with pytest.raises(ValueError, match="1 latent function, given a tuple of 2 means"):
        cavity.GP(kernels.RBF(), likelihoods.Gaussian(), mean=(means.Zero(),) * 2)
    with pytest.raises(ValueError, match="takes one output, y has 2"):
        cavity.infer(model(), X, np.column_stack([Y, Y]))
