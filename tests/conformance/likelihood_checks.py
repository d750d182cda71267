"""What every likelihood must do, checked through the public interface of `AbstractLikelihood`.

A check takes a likelihood. `CHECKS` has them all.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.likelihoods import Support
from cavity.likelihoods.capabilities import HasDistributionFunction, number_of_classes
from cavity.likelihoods.latent_values import initial_latents, sample
from tests.oracle.integrals import nodes
from tests.tolerances import assert_close

# Outputs and values that are none, by support.
OUTPUTS = {
    Support.REAL: [-1.3, 0.4, 2.1],
    Support.POSITIVE: [0.05, 0.7, 4.0],
    Support.UNIT: [0.02, 0.4, 0.95],
    Support.COUNTS: [0.0, 3.0, 11.0],
}
REFUSED = {
    Support.REAL: [np.nan, np.inf],
    Support.POSITIVE: [0.0, -1.0, np.nan],
    Support.UNIT: [0.0, 1.0, -0.2, 3.0],
    Support.COUNTS: [-1.0, 0.5, np.nan, np.inf],
    Support.LABELS: [-1.0, 0.5, 400.0, np.nan],
}
MEANS, DEVIATIONS = np.array([-1.1, 0.2, 1.6]), np.array([0.1, 1.3])
EXTREMES = np.array([-1e3, 0.3, 1e3]), np.array([1e-3, 1e3])
POWERS = [0.0, 1e-3, 0.2, 0.7, 1.0]
# The marginal of f for predictions, and the probabilities of quantiles.
LATENT_MEAN, LATENT_SD = 0.3, 0.7
LEVELS = np.array([0.03, 0.5, 0.9])
DRAWN_AT = np.full(10_000, 0.3)
# How far to go for the mass of outputs: in arsinh, logarithms or log odds, or counts.
REACH = {Support.REAL: 30.0, Support.POSITIVE: 60.0, Support.UNIT: 36.0}
COUNTED = 3000


def outputs(likelihood):
    """A few possible outputs."""
    if likelihood.support is Support.LABELS:
        return np.array([0.0, number_of_classes(likelihood) - 1.0, likelihood.classes // 2])
    return np.array(OUTPUTS[likelihood.support])


def cases(likelihood, means=MEANS, deviations=DEVIATIONS):
    """Means, variances and outputs in all combinations, (18,) each."""
    grid = np.meshgrid(means, deviations**2, outputs(likelihood), indexing="ij")
    return [jnp.asarray(np.ravel(a)) for a in grid]


# The same program for several checks: the power is traced, or a number of Python's.
@eqx.filter_jit
def tilted(likelihood, mean, var, y, power):
    return likelihood.tilted(mean, var, y, power)


@eqx.filter_jit
def log_prob(likelihood, f, y):
    return likelihood.log_prob(f, y)


@eqx.filter_jit
def distribution(likelihood, mean, var):
    return likelihood.predictive(mean, var)


@eqx.filter_jit
def densities_and_quantiles(out, y):
    return jax.lax.map(out.log_density, y), out.quantile(jnp.asarray(LEVELS))


def rule(support, upto=None):
    """Outputs and weights that sum up a density, to the end or up to an output."""
    if support.discrete:
        y = np.arange(COUNTED, dtype=float)
        return y, np.where(y <= (COUNTED if upto is None else upto), 1.0, 0.0)
    ways = {
        Support.REAL: (np.arcsinh, np.sinh, np.cosh),
        Support.POSITIVE: (np.log, np.exp, np.exp),
        Support.UNIT: (
            lambda y: np.log(y / (1 - y)),
            lambda t: 1 / (1 + np.exp(-t)),
            lambda t: 1 / (2 + 2 * np.cosh(t)),
        ),
    }
    to_line, from_line, slope = ways[support]
    reach = REACH[support]
    end = reach if upto is None else to_line(upto)
    edges = np.linspace(-reach, reach, 1201)
    edges = np.append(edges[edges < end], end)
    points, weights = np.polynomial.legendre.leggauss(6)
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    t = (middle + half * points).ravel()
    return from_line(t), (half * weights).ravel() * slope(t)


def mixed_density(likelihood, y):
    """The predictive density of outputs, by brute force over f."""
    f, log_weight = nodes(LATENT_MEAN, LATENT_SD, [])
    near = log_weight > np.max(log_weight) - 60.0
    f, weight = f[near], np.exp(log_weight[near])
    parts = np.array_split(y, 40)
    values = [np.exp(log_prob(likelihood, f[:, None], part)) for part in parts]
    return weight @ np.concatenate(values, axis=1)


def possible(likelihood, y, weight):
    """Only what the likelihood takes."""
    kept = np.asarray(likelihood.accepts(y))
    return y[kept], weight[kept]


def by_rule(likelihood):
    """How much worse these rules, which know of no kinks, integrate a density with one."""
    return 1.0 if likelihood.smooth else 1e3


def check_density(likelihood):
    """It integrates, or sums, to one."""
    y, weight = possible(likelihood, *rule(likelihood.support))
    f = jnp.array([[-1.2], [0.0], [2.3]])
    found = np.exp(log_prob(likelihood, f, y)) @ weight
    assert_close(found, np.ones(3), "fixed_point", scale=by_rule(likelihood))


def check_power_means_rise(likelihood):
    """The power-mean inequality, also where the cavity is extreme."""
    for args in (cases(likelihood), cases(likelihood, *EXTREMES)):
        means = [tilted(likelihood, *args, jnp.asarray(a)).log_mean for a in POWERS]
        assert np.all(np.diff(means, axis=0) >= -1e-7 * (1.0 + np.abs(means[1:])))


def check_limit_at_zero(likelihood):
    """Tiny powers, the traced 0 and the number 0 agree."""
    args = cases(likelihood)
    expected = tilted(likelihood, *args, 0.0)
    for found, wanted in zip(tilted(likelihood, *args, jnp.asarray(0.0)), expected, strict=True):
        assert_close(found, wanted, "fixed_point", scale=1.0)
    near, far = (tilted(likelihood, *args, jnp.asarray(a)).log_mean for a in (1e-6, 2e-6))
    assert_close(2.0 * near - far, expected.log_mean, "fixed_point", scale=1.0)


def check_power_one(likelihood):
    """Closed forms at power 1, where there are some, are what quadrature finds (bui 21)."""
    args = cases(likelihood)
    pair = tilted(likelihood, *args, 1.0), tilted(likelihood, *args, jnp.asarray(1.0))
    for closed, found in zip(*pair, strict=True):
        assert_close(closed, found, "fixed_point", scale=1.0)


def check_value_alone(likelihood):
    """`log_power_mean` is the value that comes with slope and curvature."""
    args = cases(likelihood)
    value = eqx.filter_jit(lambda *a: likelihood.log_power_mean(*a, jnp.asarray(0.4)))(*args)
    expected = tilted(likelihood, *args, jnp.asarray(0.4)).log_mean
    assert_close(value, expected, "factorised", scale=1.0)


def check_slopes(likelihood):
    """Slope and curvature are the derivatives of the value in the mean (bui 21)."""
    mean, var, y = cases(likelihood)
    for power in (jnp.asarray(0.0), jnp.asarray(0.3), jnp.asarray(1.0)):
        step = 0.05 * jnp.sqrt(var)
        around = [tilted(likelihood, mean + i * step, var, y, power) for i in (-2, -1, 1, 2)]
        middle = tilted(likelihood, mean, var, y, power)
        for of, derivative in ((0, 1), (1, 2)):
            a, b, c, d = (t[of] for t in around)
            found = (a - 8.0 * b + 8.0 * c - d) / (12.0 * step)
            scale = 1.0 + np.max(np.abs(middle[derivative]))
            assert_close(found, middle[derivative], "gradient", scale=scale)


def check_extremes(likelihood):
    """Nothing is NaN or infinite, and tilted variances are positive."""
    mean, var, y = cases(likelihood, *EXTREMES)
    for power in (0.0, 1.0, jnp.asarray(0.0), jnp.asarray(0.3), jnp.asarray(1.0)):
        found = tilted(likelihood, mean, var, y, power)
        assert all(np.all(np.isfinite(value)) for value in found), power
        assert np.all(1.0 + power * var * found.curvature > 0.0)


def check_derivatives_of_the_density(likelihood):
    """Finite in f, and in every parameter."""
    f, y = jnp.asarray(np.linspace(-300.0, 300.0, 18)), cases(likelihood)[2]
    slope = jax.grad(lambda f: jnp.sum(likelihood.log_prob(f, y)))
    bend = jax.grad(lambda f: jnp.sum(slope(f)))
    assert np.all(np.isfinite(jax.jit(lambda f: jnp.stack([slope(f), bend(f)]))(f)))
    args = cases(likelihood, *EXTREMES)
    value = lambda likelihood, a: jnp.sum(likelihood.log_power_mean(*args, a))  # noqa: E731
    for gradient in jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(value))(likelihood, 0.3)):
        assert np.all(np.isfinite(gradient))


def check_log_concave(likelihood):
    """The claim, by second differences."""
    f, y = np.linspace(-9.0, 9.0, 361), outputs(likelihood)
    value = np.asarray(log_prob(likelihood, f[:, None], y))
    bend = value[2:] - 2.0 * value[1:-1] + value[:-2]
    rounding = 1e-13 * (1.0 + np.max(np.abs(value)))
    assert np.all(bend <= rounding) == likelihood.log_concave


def check_cdf(likelihood):
    """Where there is a distribution function, it rises and is the density summed up."""
    if not isinstance(likelihood, HasDistributionFunction):
        return
    y, f = outputs(likelihood), np.array([-1.2, 0.0, 2.3])
    found = np.asarray(eqx.filter_jit(likelihood.cdf)(y, f[:, None]))
    assert np.all(np.diff(found, axis=1) > 0.0)
    for value, column in zip(y, found.T, strict=True):
        z, weight = rule(likelihood.support, value)
        expected = np.exp(log_prob(likelihood, f[:, None], z)) @ weight
        assert_close(column, expected, "fixed_point", scale=by_rule(likelihood))


def check_sample(likelihood):
    """Outputs drawn given f have the distribution that the density sums up to."""
    draws = jax.jit(lambda key, f: sample(likelihood, key, f))(jax.random.key(0), DRAWN_AT)
    assert draws.shape == DRAWN_AT.shape
    assert np.all(np.asarray(likelihood.accepts(draws)))
    error = 0.5 / np.sqrt(DRAWN_AT.size)
    for value in outputs(likelihood):
        y, weight = possible(likelihood, *rule(likelihood.support, value))
        expected = np.exp(log_prob(likelihood, DRAWN_AT[:1], y)) @ weight
        assert np.mean(np.asarray(draws) <= value) == pytest.approx(expected, abs=4.0 * error)


def check_predictive(likelihood):
    """Mean, variance, density and quantiles of y, by brute force."""
    y, weight = possible(likelihood, *rule(likelihood.support))
    density = mixed_density(likelihood, y)
    total = density @ weight
    mean = density @ (weight * y) / total
    var = density @ (weight * (y - mean) ** 2) / total
    shown = outputs(likelihood)
    args = [np.full(2, LATENT_MEAN), np.full(2, LATENT_SD**2)]
    out = distribution(likelihood, *args)
    found = densities_and_quantiles(out, jnp.asarray(np.tile(shown[:, None], 2)))
    found_density, quantiles = (np.asarray(a)[..., 0] for a in found)
    assert_close(out.mean[0], mean, "gradient", scale=np.sqrt(var))
    assert_close(out.var[0], var, "gradient", scale=var * by_rule(likelihood))
    expected = mixed_density(likelihood, shown)
    assert_close(np.exp(found_density), expected, "fixed_point", scale=by_rule(likelihood))
    for level, quantile in zip(LEVELS, quantiles, strict=True):
        z, part = possible(likelihood, *rule(likelihood.support, quantile))
        below = mixed_density(likelihood, z) * part
        if likelihood.support.discrete:
            last = below[np.asarray(z) == quantile].sum()
            assert below.sum() >= level > below.sum() - last
        else:
            assert below.sum() == pytest.approx(level, abs=2e-3)


def check_predictive_refuses(likelihood):
    """Probabilities that are none, and outputs of another shape."""
    out = distribution(likelihood, np.zeros(2), np.ones(2))
    for wrong in (0.0, 1.0, -0.2, np.nan, np.array([0.5, 1.5])):
        with pytest.raises(ValueError, match=r"probabilities in \(0, 1\), given"):
            out.quantile(wrong)
    with pytest.raises(ValueError, match=r"y must have the shape .*\(2,\), given shape \(2, 1\)"):
        out.log_density(jnp.full((2, 1), outputs(likelihood)[0]))


def check_support(likelihood):
    assert np.all(np.asarray(likelihood.accepts(outputs(likelihood))))
    assert not np.any(np.asarray(likelihood.accepts(np.array(REFUSED[likelihood.support]))))
    if likelihood.support is Support.LABELS:
        assert not bool(likelihood.accepts(np.array([float(number_of_classes(likelihood))])).any())
        assert likelihood.accepted.endswith(f" {number_of_classes(likelihood) - 1}")
    else:
        assert likelihood.accepted == likelihood.support.value


def check_guess(likelihood):
    """Latent values that make the outputs likely, larger for larger outputs."""
    y = np.sort(outputs(likelihood))
    f = initial_latents(likelihood, y)
    assert np.all(np.diff(f) >= 0.0)
    assert np.all(np.asarray(log_prob(likelihood, f, y)) > -12.0)


def check_print(likelihood):
    """Every parameter by its name."""
    fields = dataclasses.fields(likelihood)
    names = {field.name for field in fields if not field.metadata.get("static")}
    assert all(name in str(likelihood) for name in names)


def check_float32(likelihood):
    mean, var, y = cases(likelihood)
    expected = tilted(likelihood, mean, var, y, jnp.asarray(0.5))
    with jax.enable_x64(False):
        given = [jnp.asarray(np.asarray(a, np.float32)) for a in (mean, var, y)]
        narrow = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float32)), likelihood)
        found = tilted(narrow, *given, jnp.asarray(np.float32(0.5)))
        assert eqx.filter_eval_shape(narrow.log_prob, *given[::2]).dtype == np.float32
    for value, wanted in zip(found[:2], expected[:2], strict=True):
        assert value.dtype == np.float32
        assert_close(value, wanted, "factorised", scale=1.0 + np.max(np.abs(wanted)))


CHECKS = [
    check_density,
    check_power_means_rise,
    check_limit_at_zero,
    check_power_one,
    check_value_alone,
    check_slopes,
    check_extremes,
    check_derivatives_of_the_density,
    check_log_concave,
    check_cdf,
    check_sample,
    check_predictive,
    check_predictive_refuses,
    check_support,
    check_guess,
    check_print,
    check_float32,
]
