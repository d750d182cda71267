"""Laws of the power mean of a Gaussian likelihood, log M_a, at values chosen by hypothesis."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cavity.inference.graph.sites import BlockSites, ScalarSites
from cavity.likelihoods import Gaussian
from tests.tolerances import assert_close

few = settings(max_examples=40, deadline=None)
means = st.floats(-3, 3)
variances = st.floats(-4, 2).map(lambda x: 10.0**x)
powers = st.floats(0.0, 1.0)


@jax.jit
def log_mean(mean, var, y, noise, power):
    return Gaussian(noise).log_power_mean(mean, var, y, power)


@jax.jit
def derivatives(mean, var, y, noise, power):
    """Slope, curvature and slope in the variance."""
    args = (mean, var, y, noise, power)
    slope = jax.grad(log_mean)
    return slope(*args), jax.grad(slope)(*args), jax.grad(log_mean, 1)(*args)


def arrays(*values):
    return [jnp.asarray(v) for v in values]


@few
@given(means, variances, means, variances)
def test_turner_04_the_power_mean_rises_with_the_power(mean, var, y, noise):
    """turner 4: power means are ordered, from the geometric mean at 0 up to the mean at 1."""
    grid = [0.0, 1e-12, 1e-6, 0.01, 0.3, 0.7, 1.0]
    values = [float(log_mean(*arrays(mean, var, y, noise, a))) for a in grid]
    slack = 1e-12 * max(1.0, max(map(abs, values)))
    assert np.all(np.diff(values) >= -slack)


@few
@given(means, variances, means, variances)
def test_the_limit_at_power_zero_is_the_mean_log_density(mean, var, y, noise):
    """Continuous at 0: a tiny power, the traced number 0 and the Python number 0 agree."""
    expected = -0.5 * (np.log(2 * np.pi * noise) + ((y - mean) ** 2 + var) / noise)
    scale = 1.0 + abs(expected)
    args = arrays(mean, var, y, noise)
    assert_close(float(log_mean(*args, jnp.asarray(0.0))), expected, scale=scale)
    at_zero = Gaussian(args[3]).log_power_mean(*args[:3], 0.0)
    assert_close(float(at_zero), expected, scale=scale)
    # the next term is of the order a (var / noise)²
    tiny = 1e-9 * min(1.0, noise / var) ** 2 / (1.0 + (y - mean) ** 2 / noise)
    assert_close(float(log_mean(*args, jnp.asarray(tiny))), expected, "factorised", scale=scale)


@few
@given(means, variances, means, variances, powers)
def test_heat_equation_of_the_tilted_normaliser(mean, var, y, noise, power):
    """d log Z / dV = (d² log Z / dm² + (d log Z / dm)²) / 2 with log Z = a log M (bui E6)."""
    slope, bend, in_var = derivatives(*arrays(mean, var, y, noise, power))
    assert_close(in_var, 0.5 * (bend + power * slope**2), "factorised", scale=abs(bend))


@few
@given(means, variances, means, variances, powers)
def test_bui_07_the_matched_site_is_the_gaussian_factor(mean, var, y, noise, power):
    """bui 7: whatever the cavity, matching N(y; f, noise) gives precision and mean of itself."""
    slope, bend, _ = derivatives(*arrays(mean, var, y, noise, power))
    cavity = [jnp.full((1, 1), v) for v in (mean, var, float(slope), float(bend))]
    site = ScalarSites(jnp.zeros((1, 1)), jnp.zeros((1, 1))).moment_match(*cavity, power)
    assert_close(site.precision[0, 0], 1.0 / noise, "fixed_point")
    size = (abs(mean) + abs(y) + np.sqrt(var)) * (1.0 + var / noise) / noise
    assert_close(site.shift[0, 0], y / noise, "factorised", scale=size)


@few
@given(means, variances, variances, means, powers)
def test_removal_is_a_difference_of_log_partitions(mean, var, precision, shift, power):
    """D_a = [Phi(q / t^a) - Phi(q)] / a, and its limit -E_q[log t] at power 0."""
    precision = min(precision, 0.9 / var)
    site = ScalarSites(jnp.full((1, 1), shift), jnp.full((1, 1), precision))
    q = [jnp.full((1, 1), v) for v in (mean, var)]

    def phi(h, P):
        return 0.5 * (h**2 / P - np.log(P))

    limit = -shift * mean + 0.5 * precision * (mean**2 + var)
    size = 1.0 + abs(limit) + shift**2 * var
    assert_close(site.log_normaliser_ratio(*q, 0.0)[0, 0], limit, scale=size)
    assert_close(
        site.log_normaliser_ratio(*q, jnp.asarray(1e-13))[0, 0], limit, "quadrature", scale=size
    )
    a = max(power, 0.01)
    h, P = mean / var, 1.0 / var
    direct = (phi(h - a * shift, P - a * precision) - phi(h, P)) / a
    size = size + (1.0 + abs(phi(h, P))) / a
    assert_close(
        site.log_normaliser_ratio(*q, jnp.asarray(a))[0, 0], direct, "factorised", scale=size
    )


@jax.jit
def as_rows_and_as_a_block(m, v, h, tau, slope, bend, power):
    """Cavity, removal and match of three rows, by scalar sites and by one block site."""
    scalar = ScalarSites(h[:, None], tau[:, None])
    moments = m[:, None], v[:, None]
    sites = scalar.moment_match(*moments, slope[:, None], bend[:, None], power)
    rows = scalar.cavity(*moments, power), scalar.log_normaliser_ratio(*moments, power), sites
    block = BlockSites(h[None, None], jnp.diag(tau)[None, None])
    moments = m[None, None], jnp.diag(v)[None, None]
    site = block.moment_match(*moments, slope[None, None], jnp.diag(bend)[None, None], power)
    return rows, (block.cavity(*moments, power), block.log_normaliser_ratio(*moments, power), site)


@few
@given(st.integers(0, 10**6), powers)
def test_a_block_of_independent_rows_is_its_rows(seed, power):
    """Cavity, removal and match of block sites with diagonal matrices are those of scalars."""
    rng = np.random.default_rng(seed)
    m, h, slope = rng.normal(size=(3, 3))
    v, bend, tau = rng.uniform(0.1, 2.0, 3), -rng.uniform(0.1, 0.4, 3), rng.uniform(-1.0, 0.45, 3)
    rows, block = as_rows_and_as_a_block(m, v, h, tau, slope, bend, power)
    (means, variances, each), removal, sites = rows
    (mean, var, proper), removed, found = block
    assert bool(proper[0, 0])
    assert np.all(each)
    assert_close(mean[0, 0], means[:, 0], "factorised", scale=1.0)
    assert_close(np.diagonal(var[0, 0]), variances[:, 0], "factorised")
    assert_close(removed[0, 0], np.sum(removal), "factorised")
    assert_close(np.diagonal(found.precision[0, 0]), sites.precision[:, 0], "factorised")
    assert_close(found.shift[0, 0], sites.shift[:, 0], "factorised", scale=1.0)
