"""Priors of weights: moments and distribution functions against quadrature."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from cavity import likelihoods, weights
from cavity.weights.base import mixture_tilted, weight_by_weight
from tests.tolerances import assert_close

MEANS = np.array([0.0, 0.3, -2.0, 8.0])[:, None]
VARIANCES = (1e-4, 1.0, 1e6)


def horseshoe_density(w, scale=0.1):
    """In closed form, by the exponential integral."""
    square = 0.5 * (w / scale) ** 2
    # U(1, 1, s) = e^s E₁(s)
    return special.hyperu(1.0, 1.0, square) / (scale * np.sqrt(2.0 * np.pi**3))


DENSITIES: dict[str, Any] = {
    "gaussian": (weights.Gaussian(0.5), lambda w: stats.norm.pdf(w, 0.0, np.sqrt(0.5))),
    "laplace": (weights.Laplace(0.3), lambda w: stats.laplace.pdf(w, 0.0, 0.3)),
    "student-t": (weights.StudentT(0.3, 4.0), lambda w: stats.t.pdf(w, 4.0, 0.0, 0.3)),
    "spike and slab": (
        weights.SpikeSlab(0.2, 2.0, 0.01),
        lambda w: 0.8 * stats.norm.pdf(w, 0.0, 0.1) + 0.2 * stats.norm.pdf(w, 0.0, np.sqrt(2.0)),
    ),
    "horseshoe": (weights.Horseshoe(0.1), horseshoe_density),
    "half-student-t": (
        weights.HalfStudentT(0.3, 4.0),
        lambda w: 2.0 * stats.t.pdf(w, 4.0, 0.0, 0.3) * (w >= 0.0),
    ),
}


def integral(function, mean, deviation, power, upper=np.inf):
    """Of a density to a power times a Gaussian, piece by piece."""
    widths = np.concatenate([np.logspace(-7, 1.5, 25)])
    edges = np.concatenate([-widths, [0.0], widths, mean + deviation * np.linspace(-9, 9, 19)])
    edges = np.unique(np.clip(edges, max(mean - 12 * deviation, -60), min(upper, 60)))
    edges = np.unique(np.clip(edges, None, mean + 12 * deviation))

    def one(w):
        return np.exp(stats.norm.logpdf(w, mean, deviation)) * function(w) ** power

    pieces = itertools.pairwise(edges)
    return sum(integrate.quad(one, *ends, epsabs=0, epsrel=1e-10)[0] for ends in pieces)


@pytest.mark.slow
@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("power", [0.3, 1.0])
def test_power_means_are_integrals(name, power):
    """Jylanki S92 to S94, with the constants of powers below 1."""
    prior, density = DENSITIES[name]
    if power != 1.0 and not prior.any_power:
        pytest.skip("this prior has power 1 alone")
    for mean, var in [(0.0, 0.01), (0.3, 1.0), (-2.0, 0.04)]:
        found = prior.log_power_mean(jnp.float64(mean), jnp.float64(var), power)
        expected = np.log(integral(density, mean, np.sqrt(var), power)) / power
        assert_close(found, expected, "quadrature", scale=1.0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", DENSITIES)
def test_derivatives_are_those_of_the_power_mean(name):
    prior, _ = DENSITIES[name]
    mean, var, step = jnp.asarray([0.0, 0.3, -2.0]), jnp.asarray([0.01, 1.0, 0.04]), 1e-4
    found = prior.tilted(mean, var, 1.0)
    up, down = (prior.tilted(mean + s, var, 1.0) for s in (step, -step))
    assert_close(found.slope, (up.log_mean - down.log_mean) / (2 * step), "gradient", scale=1.0)
    curvature = (up.slope - down.slope) / (2 * step)
    np.testing.assert_allclose(found.curvature, curvature, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("var", VARIANCES)
@pytest.mark.parametrize("power", [0.3, 1.0])
def test_laplace_and_student_t_are_likelihoods_at_zero(var, power):
    """A weight that observes nothing is an output of zero with that noise."""
    mean, var = jnp.asarray(MEANS), jnp.full(MEANS.shape, var)
    pairs = [
        (weights.Laplace(0.3), likelihoods.Laplace(0.3)),
        (weights.StudentT(0.3, 4.0), likelihoods.StudentT(0.3, 4.0)),
    ]
    for prior, noise in pairs:
        found = weight_by_weight(
            lambda p, m, v: p.tilted(m, v, power), prior.for_weights(None, 4), mean, var
        )
        expected = noise.tilted(mean, var, jnp.zeros_like(mean), power)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("var", VARIANCES)
def test_student_t_is_a_scale_mixture(var):
    """Groups of one: inverse gamma variances."""
    prior = weights.StudentT(0.3, 4.0).for_weights(None, 4)
    mean, var = jnp.asarray(MEANS), jnp.full(MEANS.shape, var)
    found = mixture_tilted(mean, var, *prior.scales())
    assert_close(found.log_mean, prior.tilted(mean, var, 1.0).log_mean, "quadrature")


@pytest.mark.parametrize("name", ["laplace", "student-t", "horseshoe"])
def test_weights_are_gaussian_given_their_scales(name):
    """Averaged over local scales, by which draws go, these are the densities."""
    prior, density = DENSITIES[name]
    assert prior.has_local_scales
    local = np.linspace(-60.0, 60.0, 24_001)
    variance, log_share = map(np.asarray, prior.variance_given_scale(jnp.asarray(local)))
    step = local[1] - local[0]
    for w in (0.05, 0.4, 2.0):
        found = np.sum(np.exp(log_share) * stats.norm.pdf(w, 0.0, np.sqrt(variance))) * step
        np.testing.assert_allclose(found, density(w), rtol=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [*DENSITIES])
def test_distribution_functions_of_tilted_weights(name):
    prior, density = DENSITIES[name]
    for mean, var in [(0.0, 0.01), (0.3, 1.0), (-2.0, 0.04)]:
        at = 0.8 * mean + 0.3 * np.sqrt(var)
        whole, below = (integral(density, mean, np.sqrt(var), 1.0, up) for up in (np.inf, at))
        found = prior.cdf(*(jnp.float64(x) for x in (at, mean, var)))
        assert abs(float(found) - below / whole) < 1e-7


@pytest.mark.parametrize("df", [3.0, 100.0, 1e6])
def test_student_t_weights_of_any_degrees_of_freedom(df):
    """Quantiles under a flat cavity are those of the density."""
    prior = weights.StudentT(0.3, df)
    at = stats.t.ppf(0.95, df, 0.0, 0.3)
    found = prior.cdf(*(jnp.float64(x) for x in (at, 0.0, 1e10)))
    assert abs(float(found) - 0.95) < 1e-6


@pytest.mark.parametrize("var", [1.0, 1e6, 1e16])
def test_a_wide_cavity_leaves_a_laplace_weight_its_prior(var):
    """Quantiles to all digits, where logs of tails are large and cancel."""
    prior = weights.Laplace(0.3)
    at = stats.laplace.ppf(0.95, 0.0, 0.3)
    found = float(prior.cdf(*(jnp.float64(x) for x in (at, 0.0, var))))
    assert abs(found - 0.95) < (1e-9 if var > 1e8 else 0.1 / np.sqrt(var))


def test_a_slab_bounds_the_horseshoe():
    """The regularised horseshoe: a large weight costs what it costs under the slab."""
    plain, bounded = weights.Horseshoe(0.1), weights.Horseshoe(0.1, slab=2.0)
    near, far = jnp.float64(0.01), jnp.float64(40.0)
    narrow = jnp.float64(1e-3)
    log_ratio = [
        float(plain.log_power_mean(at, narrow, 1.0) - bounded.log_power_mean(at, narrow, 1.0))
        for at in (near, far)
    ]
    assert abs(log_ratio[0]) < 0.1
    assert log_ratio[1] > 100.0


def test_inclusion_is_the_share_of_the_slab():
    prior = weights.SpikeSlab(0.2, 2.0)
    mean, var = np.array([0.0, 1.0]), np.array([0.1, 0.1])
    spike = 0.8 * stats.norm.pdf(mean, 0.0, np.sqrt(var))
    slab = 0.2 * stats.norm.pdf(mean, 0.0, np.sqrt(var + 2.0))
    found = prior.inclusion(jnp.asarray(mean), jnp.asarray(var))
    assert_close(found, slab / (slab + spike), "factorised")
    below, above = prior.signs(jnp.asarray(mean), jnp.asarray(var))
    assert_close(below + above, found)
    assert_close(below[0], above[0])


def test_parameters_by_group():
    prior = weights.SpikeSlab(np.array([0.1, 0.4]), 1.0).for_weights(np.array([0, 1, 1]), 3)
    assert_close(prior.share[:, 0], [0.1, 0.4, 0.4])
    assert weights.SpikeSlab(np.array([0.1, 0.4])).sizes() == {2}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mean", "var"), [(-3.0, 1e-4), (-3.0, 1e-2), (-40.0, 1.0), (-0.5, 4.0)])
def test_slivers_of_a_half_student_t(mean, var):
    """Jylanki S104: far below zero the mass lies within V / |m| of it."""
    prior, width = weights.HalfStudentT(0.3, 4.0), var / abs(mean)

    def one(w, power=0):
        return w**power * stats.t.pdf(w, 4.0, 0.0, 0.3) * np.exp((mean * w - 0.5 * w**2) / var)

    edges = np.concatenate([[0.0], width * np.geomspace(1e-3, 60.0, 60)])
    pieces = list(itertools.pairwise(edges))
    mass, first, second = (
        sum(integrate.quad(one, *ends, args=(k,), epsabs=0, epsrel=1e-11)[0] for ends in pieces)
        for k in range(3)
    )
    found = prior.tilted(jnp.float64(mean), jnp.float64(var), 1.0)
    log_mean = np.log(2.0 * mass) - 0.5 * mean**2 / var - 0.5 * np.log(2.0 * np.pi * var)
    assert abs(found.log_mean - log_mean) < 1e-8 * max(1.0, abs(log_mean))
    np.testing.assert_allclose(mean + var * found.slope, first / mass, rtol=1e-7)
    spread = second / mass - (first / mass) ** 2
    np.testing.assert_allclose(var + var**2 * found.curvature, spread, rtol=1e-5)
    at = jnp.float64(width)
    below = sum(
        integrate.quad(one, a, min(b, width), epsabs=0, epsrel=1e-11)[0]
        for a, b in pieces
        if a < width
    )
    assert abs(prior.cdf(at, jnp.float64(mean), jnp.float64(var)) - below / mass) < 1e-7


@pytest.mark.sampled(1)
@pytest.mark.parametrize("var", [1e-4, 1.0])
def test_far_above_zero_a_half_student_t_is_a_student_t(var):
    mean, var = jnp.asarray([9.0, 40.0]), jnp.full(2, var)
    found = weights.HalfStudentT(0.3).tilted(mean, var, 1.0)
    whole = weights.StudentT(0.3).tilted(mean, var, 1.0)
    assert_close(found.log_mean, whole.log_mean + np.log(2.0), "quadrature", scale=1.0)
    np.testing.assert_allclose(found.slope, whole.slope, rtol=1e-6)
    np.testing.assert_allclose(found.curvature, whole.curvature, rtol=1e-4)


def test_a_half_student_t_has_no_negative_weights():
    prior, at = weights.HalfStudentT(0.3), jnp.asarray([-1.0, 0.0])
    np.testing.assert_array_equal(prior.cdf(at, 0.0 * at - 0.2, 0.0 * at + 0.5), 0.0)
    negative, positive = prior.signs(jnp.asarray([-0.2]), jnp.asarray([0.5]))
    assert (negative[0], positive[0]) == (0.0, 1.0)
    with pytest.raises(ValueError, match="degrees of freedom must be positive"):
        weights.HalfStudentT(0.3, 0.0)


@pytest.mark.parametrize(
    "made",
    [
        lambda: weights.HalfStudentT(1.0, "a"),
        lambda: weights.StudentT(1.0, None),
        lambda: weights.SpikeSlab(0.1, 1.0, "a"),
    ],
)
def test_what_is_no_number(made):
    with pytest.raises(TypeError, match="parameters are numbers"):
        made()
