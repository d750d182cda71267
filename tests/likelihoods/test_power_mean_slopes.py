"""Derivatives of log power means: moments where those suffice, nodes for anything else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.likelihoods import Bernoulli, Poisson, StudentT
from cavity.likelihoods.by_quadrature import _plain_log_power_mean
from tests.tolerances import assert_close

CASES = {
    "probit": (Bernoulli(), [1.0, 0.0]),
    "logit": (Bernoulli("logit"), [1.0, 0.0]),
    "counts": (Poisson(), [0.0, 3.0]),
}


@pytest.mark.sampled(1, "logit-0.5")
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_slopes_are_those_of_differences(name, power):
    """The heat equation for the variance; central differences as the oracle."""
    likelihood, outputs = CASES[name]
    mean = jnp.asarray([-3.0, 0.2, 1.5, -0.7])
    var = jnp.asarray([0.3, 1.0, 20.0, 1e-3])
    y = jnp.asarray([outputs[i % 2] for i in range(4)])

    def total(m, v):
        return jnp.sum(likelihood.log_power_mean(m, v, y, power))

    slopes = jax.jit(jax.grad(total, (0, 1)))(mean, var)
    each = jax.jit(lambda m, v: likelihood.log_power_mean(m, v, y, power))
    step = 1e-4
    by_mean = (each(mean + step, var) - each(mean - step, var)) / (2.0 * step)
    by_var = (each(mean, var * (1 + step)) - each(mean, var * (1 - step))) / (2.0 * step * var)
    np.testing.assert_allclose(slopes[0], by_mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(slopes[1], by_var, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_slopes_in_parameters_and_outputs_are_those_of_the_nodes(power):
    """A likelihood's own parameters, and outputs, have no moments: all goes through the nodes."""
    mean, var, y = jnp.asarray([0.3, -2.0]), jnp.asarray([0.5, 4.0]), jnp.asarray([0.1, 3.0])
    at = (StudentT(0.3, 4.0), y, mean, var)
    ours = eqx.filter_grad(lambda a: jnp.sum(a[0].log_power_mean(a[2], a[3], a[1], power)))
    plain = eqx.filter_grad(
        lambda a: jnp.sum(_plain_log_power_mean((a[0], a[1], {}), power, a[2], a[3]))
    )
    found, expected = (jax.tree.leaves(eqx.filter_jit(f)(at)) for f in (ours, plain))
    assert len(found) == 5
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.slow
def test_mixed_second_derivatives_agree():
    """Derivatives of the rule itself, which Newton's method takes."""
    y, mean, var = jnp.asarray([1.0, 0.0]), jnp.asarray([0.4, -1.0]), jnp.asarray([0.8, 3.0])
    likelihood = Bernoulli()

    def ours(p):
        return jnp.sum(likelihood.log_power_mean(p[0], p[1], y, 0.5))

    def plain(p):
        return jnp.sum(_plain_log_power_mean((likelihood, y, {}), 0.5, p[0], p[1]))

    at = jnp.stack([mean, var])
    found, expected = (jax.jit(jax.jacfwd(jax.grad(f)))(at) for f in (ours, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1501, 1), (301, 5)])
def test_many_values_are_as_few_are(shape):
    """Blocks, the last one padded, give each value what it gets by itself; side data go along."""
    random = np.random.default_rng(0)
    mean, y = jnp.asarray(random.standard_normal(shape)), jnp.asarray(random.poisson(2.0, shape))
    var = jnp.asarray(10.0 ** random.uniform(-2.0, 2.5, shape))
    side = {"exposure": jnp.asarray(random.uniform(0.5, 2.0, (shape[0], 1)))}
    whole = jax.jit(lambda m, v, y, s: Poisson().tilted(m, v, y, 0.5, s))
    found = whole(mean, var, y * 1.0, side)
    for part in (slice(0, 60), slice(60, 120), slice(-60, None)):
        few = {name: x[part] for name, x in side.items()}
        expected = whole(mean[part], var[part], y[part] * 1.0, few)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a[part], b, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [Bernoulli(), StudentT(0.4, 3.0)])
def test_many_values_with_a_power_each(likelihood):
    """Powers of rows are cut with them, zero among others; the gradient takes the same way."""
    random, count = np.random.default_rng(1), 1300
    mean = jnp.asarray(random.standard_normal((count, 1)))
    var = jnp.asarray(10.0 ** random.uniform(-1.0, 2.0, (count, 1)))
    y = jnp.asarray(random.integers(2, size=(count, 1)) * 1.0)
    power = jnp.asarray(random.choice([0.0, 0.3, 1.0], size=(count, 1)))
    found = eqx.filter_jit(likelihood.tilted)(mean, var, y, power)
    slope = jax.grad(lambda m: jnp.sum(likelihood.log_power_mean(m, var, y, power)))(mean)
    for part in (slice(0, 60), slice(-60, None)):
        expected = likelihood.tilted(mean[part], var[part], y[part], power[part])
        for a, b in zip((*found, slope), (*expected, expected.slope), strict=True):
            np.testing.assert_allclose(a[part], b, rtol=1e-7, atol=1e-9)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [1e-9, 1e-12, 1e-14])
def test_tiny_powers_of_counts_near_the_prior(power):
    """Nodes without weight, where a count's log density is enormous, do not decide the rule."""
    found = Poisson().tilted(*map(jnp.asarray, ([-20.18], [0.0041], [3.0], power)))
    np.testing.assert_allclose(found.slope, 3.0 - np.exp(-20.18 + 0.0041 / 2), rtol=1e-9)
    np.testing.assert_allclose(found.curvature, -np.exp(-20.18 + 0.0041 / 2), atol=1e-7)


@pytest.mark.slow
def test_slopes_of_long_tables_are_sums_over_parts():
    """More rows than are worked on at a time; some parts need more nodes than others."""
    r = np.random.default_rng(5)
    mean, var = r.standard_normal(1100), np.concatenate([np.full(600, 0.1), np.full(500, 50.0)])
    y = mean + r.standard_normal(1100)

    def total(scale, some):
        return jnp.sum(StudentT(scale, 4.0).log_power_mean(*some, 0.5))

    slope = jax.jit(jax.value_and_grad(total))
    whole = slope(0.7, (mean, var, y))
    parts = [slope(0.7, tuple(x[i : i + 550] for x in (mean, var, y))) for i in (0, 550)]
    assert_close(whole, np.sum(parts, axis=0))
