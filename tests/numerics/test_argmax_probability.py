"""The largest of independent Gaussians beside quadrature, grids and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from cavity.likelihoods import MultinomialProbit
from cavity.numerics.argmax_probability import largest, log_largest
from tests.tolerances import assert_close

C = 3
F = np.random.default_rng(8).normal(size=(C, 6)) * np.array([0.1, 1.0, 1.0, 2.0, 3.0, 5.0])
LABELS = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
VAR = np.random.default_rng(9).uniform(0.05, 3.0, (C, 6))


def scipy_largest(m, v, label):
    """S83, by adaptive quadrature."""
    rest = np.arange(len(m)) != label

    def integrand(x):
        ahead = stats.norm.cdf((x - m[rest]) / np.sqrt(v[rest]))
        return stats.norm.pdf(x, m[label], np.sqrt(v[label])) * np.prod(ahead)

    ends = m[label] + np.sqrt(v[label]) * np.array([-14.0, 14.0])
    marks = [p for p in m if ends[0] < p < ends[1]]
    return np.log(integrate.quad(integrand, *ends, points=marks, epsrel=1e-11, limit=500)[0])


RACES = [
    ([0.3, -0.7, 1.1], [0.5, 2.0, 1.0], 0),
    ([0.3, -0.7, 1.1], [0.5, 2.0, 1.0], 2),
    ([0.0, 0.1, 0.2], [1e-3, 4.0, 1e-2], 1),
    ([-1.0, 2.0, 0.5], [0.3, 0.3, 5.0], 0),
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], 1),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("m", "v", "label"), RACES)
def test_jylanki_47_the_largest_is_one_integral(m, v, label):
    """jylanki 47: S83 is exact for independent cavities."""
    found = log_largest(jnp.array(m)[:, None], jnp.array(v)[:, None], jnp.array([float(label)]))
    assert_close(found[0], scipy_largest(np.array(m), np.array(v), label), "quadrature", scale=1.0)
    if len(set(m)) == 1 and len(set(v)) == 1:
        assert_close(found[0], -np.log(C), "factorised")


@pytest.mark.slow
def test_derivatives_of_the_largest():
    """In each mean, at any variances, by differentiation."""
    m, v, y = jnp.asarray(F), jnp.asarray(VAR), jnp.asarray(LABELS)
    found = jax.jit(largest)(m, v, y)
    assert_close(found.log_mean, jax.jit(log_largest)(m, v, y))
    step = 1e-5
    in_mean, in_var = jax.grad(lambda m, v: jnp.sum(log_largest(m, v, y)), (0, 1))(m, v)
    for j in range(C):
        along = np.zeros((C, 6))
        along[j] = step
        up, down = (jax.jit(largest)(m + s * along, v, y) for s in (1.0, -1.0))
        slope = (up.log_mean - down.log_mean) / (2.0 * step)
        assert_close(found.slope[j], slope, "gradient", scale=1.0)
        assert_close(in_mean[j], slope, "gradient", scale=1.0)
        bend = (up.slope[j] - down.slope[j]) / (2.0 * step)
        assert_close(found.curvature[j], bend, "gradient", scale=1.0)
        up, down = (jax.jit(log_largest)(m, v + s * along, y) for s in (1.0, -1.0))
        assert_close(in_var[j], (up - down) / (2.0 * step), "gradient", scale=1.0)


@pytest.mark.parametrize(
    ("m", "v"),
    [([0.0, 400.0, 300.0], [100.0, 1.0, 1.0]), ([0.0, 50.0, 500.0], [1e9, 1.0, 1.0])],
    ids=["steep and far", "wider than nodes can show"],
)
def test_a_wide_value_far_behind(m, v):
    """The mode is far from the start of its search; variances that are too narrow are widened."""
    m, v = np.array(m), np.array(v)
    x = m[1] + np.sqrt(v[0]) * np.linspace(-12.0, 12.0, 4_000_001)
    rest = stats.norm.logcdf((x - m[1:, None]) / np.sqrt(v[1:, None])).sum(axis=0)
    expected = logsumexp(stats.norm.logpdf(x, m[0], np.sqrt(v[0])) + rest) + np.log(x[1] - x[0])
    found = largest(jnp.asarray(m)[:, None], jnp.asarray(v)[:, None], jnp.zeros(1))
    np.testing.assert_allclose(found.log_mean[0], expected, rtol=0.0, atol=5e-3)
    assert np.all(np.asarray(found.curvature) <= 0.0)
    assert np.all(1.0 + v * np.asarray(found.curvature)[:, 0] > 0.0)


def test_a_row_without_moments_leaves_others_alone():
    """A variance that is none sets no number of nodes."""
    m, y = jnp.array([[0.0, 0.0], [0.0, 0.0], [0.3, 0.3]]), jnp.zeros(2)
    v = jnp.array([[1e4, 1.0], [1.0, jnp.nan], [1.0, 1.0]])
    alone = log_largest(m[:, :1], v[:, :1], y[:1])
    for poison in (jnp.nan, -0.5, jnp.inf):
        both = log_largest(m, v.at[1, 1].set(poison), y)
        assert_close(both[0], alone[0])
    assert np.isnan(log_largest(m, v.at[1, 1].set(-0.5), y)[1])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("classes", [3, 10, 30])
def test_many_classes_under_equal_noise(classes):
    """As many nodes as many classes need, also for a label far behind all others."""
    r = np.random.default_rng(classes)
    for gap in (0.0, -4.0, -12.0):
        f = r.standard_normal(classes)
        f[1] += gap
        found = MultinomialProbit(classes).log_prob(jnp.asarray(f)[:, None], jnp.array([1.0]))
        x = np.linspace(f[1] - 25.0, f[1] + 25.0, 20_001)
        rest = stats.norm.logcdf(x - np.delete(f, 1)[:, None]).sum(axis=0)
        expected = logsumexp(stats.norm.logpdf(x, f[1]) + rest) + np.log(x[1] - x[0])
        assert_close(found[0], expected, "factorised")


@pytest.mark.parametrize("gap", [1e3, 1e5])
def test_a_label_far_behind_another_keeps_its_digits(gap):
    """Of two classes: the log of a normal distribution function, which is a parabola there."""
    found = largest(jnp.array([[0.0], [gap]]), None, jnp.zeros(1))
    assert_close(found.log_mean[0], stats.norm.logcdf(-gap / np.sqrt(2.0)), "factorised")
    slope = (gap / 2.0 + 1.0 / gap) * np.array([1.0, -1.0])
    assert_close(found.slope[:, 0], slope, "factorised")
    np.testing.assert_allclose(found.curvature[:, 0], -0.5, rtol=1e-5)


@pytest.mark.slow
def test_products_of_many_factors_do_not_underflow_in_single_precision():
    """A label whose function is next to certain, far behind 32 others."""
    for classes, var in ((33, None), (17, 1e-4)):
        mean = jnp.asarray(np.append(0.0, np.full(classes - 1, 100.0)), jnp.float32)[:, None]
        v = None if var is None else jnp.ones_like(mean).at[0].set(var)
        found = largest(mean, v, jnp.zeros(1, jnp.float32))
        double = largest(mean.astype(float), None if v is None else v.astype(float), jnp.zeros(1))
        # curvatures are differences of squares
        for a, b, error in zip(found, double, (1e-5, 1e-3, 0.1), strict=True):
            np.testing.assert_allclose(a, b, rtol=error)
