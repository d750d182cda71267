"""Scale mixtures of several weights that share a scale: against integrals, draws, differences."""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from cavity import weights
from cavity.weights.blocks import (
    Cavities,
    block_components,
    block_log_integral,
    block_match,
    log_partition,
)
from tests.tolerances import assert_close

PRIORS: dict[str, Any] = {
    "spike and slab": weights.SpikeSlab(0.3, 1.5, 0.01),
    "horseshoe": weights.Horseshoe(0.2),
    "regularised horseshoe": weights.Horseshoe(0.2, 2.0),
    "student-t": weights.StudentT(0.4, 3.0),
}
# One block of three weights, one of two with an empty place.
PRESENT = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])


def moments(seed=0):
    """Covariances and means of cavities, nothing but variance in the empty place."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((2, 1, 3, 3))
    cov = root @ np.swapaxes(root, 2, 3) + 0.1 * np.eye(3)
    cov[1, 0, 2, :2] = cov[1, 0, :2, 2] = 0.0
    return cov, rng.standard_normal((2, 1, 3)) * PRESENT[:, None]


def cavities(cov, mean):
    precision = np.linalg.inv(cov)
    shift = np.einsum("bpwu,bpu->bpw", precision, mean)
    return Cavities(*map(jnp.asarray, (precision, shift, PRESENT[: len(cov)])))


def log_volume(cov, mean):
    """Of the Gaussians, empty places included."""
    quadratic = np.einsum("bpw,bpwu,bpu->bp", mean, np.linalg.inv(cov), mean)
    return 0.5 * (quadratic + np.linalg.slogdet(2.0 * np.pi * cov)[1])


class Tilted(NamedTuple):
    log_integral: np.ndarray
    mean: np.ndarray
    cov: np.ndarray


def tilted(prior, given):
    """Moments of products of priors and cavities, by the Gaussians that have them."""
    match = block_match(prior, given)
    cov = np.linalg.inv(given.precision + match.precision)
    mean = np.einsum("bpwu,bpu->bpw", cov, given.shift + match.shift)
    return Tilted(np.asarray(match.log_integral), mean, cov)


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


@pytest.mark.sampled(1, "spike and slab")
@pytest.mark.parametrize("name", PRIORS)
def test_power_means_are_integrals_over_the_shared_scale(name):
    cov, mean = moments()
    given = cavities(cov, mean)
    assert_close(log_partition(given), log_volume(cov, mean), "factorised")
    found = block_log_integral(block_prior(name), given) - log_partition(given)
    for b, size in enumerate((3, 2)):
        expected = log_integral(name, mean[b, 0, :size], cov[b, 0, :size, :size])
        np.testing.assert_allclose(found[b, 0], expected, atol=1e-6)


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


@pytest.mark.sampled(1, "spike and slab")
@pytest.mark.parametrize("name", PRIORS)
def test_moments_are_derivatives_of_the_integral(name):
    """In the shift: the mean, then the covariance; by differences and by differentiation."""
    prior, given = block_prior(name), cavities(*moments(1))
    found = tilted(prior, given)

    def value(shift):
        return jnp.sum(block_log_integral(prior, given._replace(shift=shift)))

    assert_close(found.log_integral, block_log_integral(prior, given))
    assert_close(found.mean, jax.grad(value)(given.shift), "factorised")
    step = 1e-4
    differences = [
        (value(given.shift.at[place].add(step)) - value(given.shift.at[place].add(-step)))
        / (2 * step)
        for place in np.ndindex(2, 1, 3)
    ]
    np.testing.assert_allclose(found.mean, np.reshape(differences, (2, 1, 3)), atol=1e-6)
    hessian = np.asarray(jax.hessian(value)(given.shift))
    own = np.stack([hessian[b, 0, :, b, 0] for b in range(2)])[:, None]
    assert_close(found.cov, own, "factorised")
    # empty places stay as they are
    assert found.mean[1, 0, 2] == 0.0
    assert_close(found.cov[1, 0, 2], np.linalg.inv(given.precision[1, 0])[2], "factorised")


def test_derivatives_in_the_precision_and_the_prior():
    """Minus half of the second moments; differences in parameters of the prior."""
    prior, given = block_prior("spike and slab"), cavities(*moments(2))
    found = tilted(prior, given)
    slope = jax.grad(
        lambda precision: jnp.sum(block_log_integral(prior, given._replace(precision=precision)))
    )(given.precision)
    second = found.cov + found.mean[..., :, None] * found.mean[..., None, :]
    assert_close(0.5 * (slope + jnp.swapaxes(slope, 2, 3)), -0.5 * second, "factorised")

    def value(share):
        own = weights.SpikeSlab(share, 1.5).for_weights(None, 2)
        return jnp.sum(block_log_integral(own, given))

    step = 1e-5
    difference = (value(0.3 + step) - value(0.3 - step)) / (2 * step)
    assert_close(jax.grad(value)(0.3), difference, "gradient")


@pytest.mark.slow
def test_a_direction_that_nothing_is_known_of():
    """The sum of three weights: it counts as if it were integrated out."""
    along = np.ones((3, 1)) / np.sqrt(3.0)
    others = np.linalg.svd(along)[0][:, 1:]
    known, shift = np.array([[3e3, 1e3], [1e3, 2e3]]), np.array([400.0, -100.0])
    precision = others @ known @ others.T
    given = Cavities(
        jnp.asarray(precision)[None, None],
        jnp.asarray(others @ shift)[None, None],
        jnp.ones((1, 3)),
    )
    prior = weights.SpikeSlab(0.3, 1.5)
    found = tilted(prior.for_weights(None, 1), given)
    logs = [
        np.log(share)
        + 0.5 * shift @ np.linalg.solve(known + np.eye(2) / s, shift)
        - 0.5 * np.linalg.slogdet(np.eye(2) + s * known)[1]
        for share, s in ((0.7, 1.5e-10), (0.3, 1.5))
    ]
    np.testing.assert_allclose(found.log_integral[0, 0], np.logaddexp(*logs), rtol=1e-9)
    odds = np.exp(logs[1] - np.logaddexp(*logs))
    assert_close(along.T @ np.asarray(found.cov)[0, 0] @ along, [[1.5 * odds]], "factorised")


@pytest.mark.parametrize("name", ["spike and slab", "student-t"])
def test_marginals_are_those_of_weighted_draws(name):
    """Draws of weights from the prior, weighted by the cavity."""
    rng, (cov, about) = np.random.default_rng(3), moments(4)
    prior, count = PRIORS[name], 400_000
    parts = block_components(block_prior(name), cavities(cov, about))
    if name == "spike and slab":
        inside = rng.random(count) < 0.3
        s = np.where(inside, 1.5, 0.01)
    else:
        s = stats.invgamma(1.5, scale=1.5 * prior.scale**2).rvs(count, random_state=rng)
        inside = None
    w = np.sqrt(s)[:, None] * rng.standard_normal((count, 3))
    share = stats.multivariate_normal(about[0, 0], cov[0, 0]).pdf(w)
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


@pytest.mark.slow
def test_a_block_of_one_weight_is_that_weight():
    """Integrals, moments and mixtures are those of single weights."""
    rng = np.random.default_rng(5)
    mean, var = jnp.asarray(rng.standard_normal((4, 1))), jnp.asarray(rng.uniform(0.1, 2, (4, 1)))
    given = Cavities((1.0 / var)[..., None, None], (mean / var)[..., None], jnp.ones((4, 1)))
    for prior in PRIORS.values():
        own = prior.for_weights(None, 4)
        found, parts = tilted(own, given), block_components(own, given)
        expected = weights.AbstractScaleMixture.tilted(own, mean, var, 1.0)
        partition = 0.5 * (mean**2 / var + jnp.log(2.0 * np.pi * var))
        assert_close(found.log_integral - partition, expected.log_mean, "factorised")
        assert_close(found.mean[..., 0], mean + var * expected.slope, "factorised")
        assert_close(found.cov[..., 0, 0], var + var**2 * expected.curvature, "factorised")
        single = own.components(mean, var)
        assert_close(parts.mean[..., 0], single.mean, "factorised")
        assert_close(parts.var[..., 0], single.var, "factorised")
        assert_close(parts.cdf(jnp.zeros(()))[..., 0], single.cdf(jnp.zeros(())), "factorised")
