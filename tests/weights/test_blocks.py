"""Scale mixtures of several weights that share a scale: against integrals, draws, differences."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from cavity import weights
from cavity.weights.blocks import Cavities, block_components, block_log_mean, block_tilted
from tests.tolerances import assert_close

PRIORS: dict[str, Any] = {
    "spike and slab": weights.SpikeSlab(0.3, 1.5, 0.01),
    "horseshoe": weights.Horseshoe(0.2),
    "regularised horseshoe": weights.Horseshoe(0.2, 2.0),
    "student-t": weights.StudentT(0.4, 3.0),
}
# One block of three weights, one of two with an empty place.
PRESENT = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])


def cavities(seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((2, 1, 3, 3))
    cov = root @ np.swapaxes(root, 2, 3) + 0.1 * np.eye(3)
    return Cavities(*map(jnp.asarray, (cov, rng.standard_normal((2, 1, 3)), PRESENT)))


def block_prior(name):
    return PRIORS[name].for_weights(None, 2)


def scale_density(name):
    """The density of the log of the variance that a block shares; None for two atoms."""
    prior = PRIORS[name]
    if name == "student-t":
        half = 0.5 * prior.df
        return lambda x: (
            stats.invgamma(half, scale=half * prior.scale**2).pdf(np.exp(x)) * np.exp(x)
        )
    tau, slab = prior.scale, prior.slab

    def density(x):
        # of a half-Cauchy deviation, whose variance the slab bounds
        s = np.exp(x)
        own = s if slab is None else s / (1.0 - s / slab**2)
        slope = 1.0 if slab is None else (own / s) ** 2
        deviation = np.sqrt(own) / tau
        return stats.halfcauchy.pdf(deviation) / (2.0 * np.sqrt(own) * tau) * slope * s

    return density


@pytest.mark.parametrize("name", PRIORS)
def test_power_means_are_integrals_over_the_shared_scale(name):
    given = cavities()
    found = block_log_mean(block_prior(name), given)
    for b, size in enumerate((3, 2)):
        mean, cov = np.asarray(given.mean)[b, 0, :size], np.asarray(given.cov)[b, 0, :size, :size]
        np.testing.assert_allclose(found[b, 0], log_integral(name, mean, cov), atol=1e-6)


def log_integral(name, mean, cov):
    """Of the scale's density times that of a mean, at zero."""

    def at(s):
        return stats.multivariate_normal(mean, cov + s * np.eye(len(mean))).pdf(0.0 * mean)

    if name == "spike and slab":
        return np.log(0.7 * at(0.01) + 0.3 * at(1.5))
    density = scale_density(name)
    # the slab of the regularised horseshoe bounds its variances
    top = np.log(4.0) - 1e-12 if "regularised" in name else 30.0
    edges = np.unique(np.minimum([-40.0, -15.0, -8.0, -4.0, -2.0, 0.0, 1.0, 4.0, 10.0, 30.0], top))
    pieces = (
        integrate.quad(lambda x: density(x) * at(np.exp(x)), *ends, epsrel=1e-10)[0]
        for ends in itertools.pairwise(edges)
    )
    return np.log(sum(pieces))


@pytest.mark.parametrize("name", PRIORS)
def test_slopes_and_curvatures_are_those_of_the_power_mean(name):
    prior, given = block_prior(name), cavities(1)
    found = block_tilted(prior, given)

    def value(mean):
        return jnp.sum(block_log_mean(prior, given._replace(mean=mean)))

    slope = jax.grad(value)(given.mean)
    assert_close(found.slope, slope, "factorised")
    step = 1e-4
    moved = [
        (value(given.mean.at[b, 0, w].add(step)), value(given.mean.at[b, 0, w].add(-step)))
        for b in range(2)
        for w in range(3)
    ]
    differences = np.array([(up - down) / (2 * step) for up, down in moved]).reshape(2, 1, 3)
    np.testing.assert_allclose(found.slope, differences, atol=1e-7)
    hessian = jax.hessian(value)(given.mean)
    own = np.stack([np.asarray(hessian)[b, 0, :, b, 0] for b in range(2)])[:, None]
    assert_close(found.curvature, own, "factorised")
    # the second weight and the third's empty place
    assert not np.any(np.asarray(found.slope)[1, 0, 2:])
    assert not np.any(np.asarray(found.curvature)[1, 0, 2])


def test_derivatives_in_the_covariance_and_the_prior():
    """The engine takes 2 dM/dV = H + G G', and differences in parameters of the prior."""
    given = cavities(2)
    prior = block_prior("spike and slab")
    found = block_tilted(prior, given)
    by_cov = jax.grad(lambda cov: jnp.sum(block_log_mean(prior, given._replace(cov=cov))))(
        given.cov
    )
    slope = np.asarray(found.slope)
    expected = 0.5 * (np.asarray(found.curvature) + slope[..., :, None] * slope[..., None, :])
    assert_close(0.5 * (by_cov + jnp.swapaxes(by_cov, 2, 3)), expected, "factorised")

    def value(share):
        return jnp.sum(block_log_mean(weights.SpikeSlab(share, 1.5).for_weights(None, 2), given))

    step = 1e-5
    difference = (value(0.3 + step) - value(0.3 - step)) / (2 * step)
    assert_close(jax.grad(value)(0.3), difference, "gradient")


@pytest.mark.parametrize("name", ["spike and slab", "student-t"])
def test_marginals_are_those_of_weighted_draws(name):
    """Draws of weights from the prior, weighted by the cavity."""
    rng, given = np.random.default_rng(3), cavities(4)
    prior, count = PRIORS[name], 400_000
    parts = block_components(block_prior(name), given)
    if name == "spike and slab":
        inside = rng.random(count) < 0.3
        s = np.where(inside, 1.5, 0.01)
    else:
        s = stats.invgamma(1.5, scale=1.5 * prior.scale**2).rvs(count, random_state=rng)
        inside = None
    w = np.sqrt(s)[:, None] * rng.standard_normal((count, 3))
    share = stats.multivariate_normal(given.mean[0, 0], given.cov[0, 0]).pdf(w)
    share /= share.sum()
    mean = np.sum(jnp.exp(parts.log_share) * parts.mean, axis=0)[0, 0]
    np.testing.assert_allclose(mean, share @ w, atol=0.02)
    below = share @ (w < 0.2)
    at = parts.cdf(jnp.asarray(0.2))[0, 0]
    np.testing.assert_allclose(at, below, atol=0.02)
    found = prior.inclusion_of(parts)
    if inside is None:
        assert found is None
        return
    np.testing.assert_allclose(found[0, 0], share @ inside, atol=0.02)
    negative, positive = prior.signs_of(parts)
    np.testing.assert_allclose(negative[0, 0], share @ (inside[:, None] & (w < 0.0)), atol=0.02)
    assert_close(negative + positive, found)


def test_a_block_of_one_weight_is_that_weight():
    """Power means, derivatives and mixtures are those of single weights."""
    rng = np.random.default_rng(5)
    mean, var = rng.standard_normal((4, 1)), rng.uniform(0.1, 2.0, (4, 1))
    given = Cavities(
        jnp.asarray(var[:, :, None, None]), jnp.asarray(mean[:, :, None]), jnp.ones((4, 1))
    )
    for prior in PRIORS.values():
        own = prior.for_weights(None, 4)
        found, parts = block_tilted(own, given), block_components(own, given)
        expected = weights.AbstractScaleMixture.tilted(
            own, jnp.asarray(mean), jnp.asarray(var), 1.0
        )
        assert_close(found.log_mean, expected.log_mean)
        assert_close(found.slope[..., 0], expected.slope, "factorised")
        assert_close(found.curvature[..., 0, 0], expected.curvature, "factorised")
        single = own.components(jnp.asarray(mean), jnp.asarray(var))
        assert_close(parts.mean[..., 0], single.mean, "factorised")
        assert_close(parts.var[..., 0], single.var, "factorised")
        assert_close(parts.cdf(jnp.zeros(()))[..., 0], single.cdf(jnp.zeros(())), "factorised")
