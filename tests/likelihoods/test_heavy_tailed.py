"""Student-t noise as a mixture of Gaussians, its powers, and when it takes precision away."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from cavity.inference.graph.sites import ScalarSites
from cavity.likelihoods import StudentT
from tests.oracle.integrals import power_mean
from tests.tolerances import assert_close

SCALE, DF = 0.3, 4.0
STUDENT = StudentT(SCALE, DF)
# Means and variances of cavities of an output at 1.1, from its centre out to its tails.
OUTPUT = 1.1
MEANS, VARIANCES = (np.ravel(a) for a in np.meshgrid([1.0, 0.3, -1.5, 8.0], [0.01, 0.3, 4.0]))


@eqx.filter_jit
def tilted(likelihood, mean, var, power):
    """Log mean of the power, and tilted mean and variance."""
    found = likelihood.tilted(mean, var, jnp.full_like(mean, OUTPUT), power)
    moved = mean + power * var * found.slope
    return power * found.log_mean, moved, var + power * var**2 * found.curvature


def test_jylanki_32_precision_that_a_row_takes_away():
    """jylanki 32: W is negative where r² > νσ², and least, -(ν+1)/(8νσ²), where r² = 3νσ²."""
    edge = DF * SCALE**2
    r = np.linspace(-4.0, 4.0, 2001)
    slope = jax.grad(lambda f, y: STUDENT.log_prob(f, y))
    W = -np.asarray(jax.jit(jax.vmap(jax.grad(slope), (0, None)))(OUTPUT - r, jnp.asarray(OUTPUT)))
    total = r**2 + edge
    assert_close(W, (DF + 1) / total - 2 * (DF + 1) * r**2 / total**2, "factorised")
    assert np.array_equal(W < 0.0, r**2 > edge)
    assert abs(r[np.argmin(W)]) == pytest.approx(np.sqrt(3 * edge), abs=r[1] - r[0])
    assert W.min() == pytest.approx(-(DF + 1) / (8 * edge), rel=1e-4)
    assert np.all(-(DF + 1) / (8 * edge) - 1e-12 <= W)


@pytest.mark.parametrize("f", [1.0, 0.2, -3.0])
def test_jylanki_35_mixture_of_gaussians(f):
    """jylanki 35: over scaled inverse chi-square variances; their mean inverse given y and f."""
    law = stats.invgamma(0.5 * DF, scale=0.5 * DF * SCALE**2)

    def weighed(times):
        density = lambda v: stats.norm.pdf(OUTPUT, f, np.sqrt(v)) * law.pdf(v)  # noqa: E731
        # over log v
        return integrate.quad(
            lambda t: times(np.exp(t)) * density(np.exp(t)) * np.exp(t), -12, 25, limit=200
        )[0]

    total = weighed(lambda v: 1.0)
    assert_close(
        float(STUDENT.log_prob(jnp.asarray(f), jnp.asarray(OUTPUT))), np.log(total), "quadrature"
    )
    inverse = weighed(lambda v: 1.0 / v) / total
    bound = STUDENT.bound(jnp.asarray(f), jnp.asarray(0.0), jnp.asarray(OUTPUT))
    assert_close(float(bound.precision), inverse, "quadrature")


def of_power(df, power):
    """The Student-t whose density is proportional to a power of another's."""
    of_df = power * df + power - 1.0
    return StudentT(SCALE * np.sqrt(df / of_df), of_df)


def log_height(scale, df):
    ratio = special.gammaln(0.5 * (df + 1)) - special.gammaln(0.5 * df)
    return ratio - 0.5 * np.log(df * np.pi) - np.log(scale)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.3, 0.8])
def test_jylanki_36_powers_are_student_t_again(power):
    """jylanki 36: with ν' = ην + η - 1 and σ'² = νσ²/ν', in density and in tilted moments."""
    other = of_power(DF, power)
    gap = power * log_height(SCALE, DF) - log_height(float(other.scale), float(other.df))
    f = np.linspace(-9.0, 9.0, 101)
    ours, theirs = (np.asarray(x.log_prob(f, jnp.asarray(OUTPUT))) for x in (STUDENT, other))
    assert_close(power * ours, theirs + gap, "factorised")
    found = tilted(STUDENT, MEANS, VARIANCES, jnp.asarray(power))
    log_mean, *moments = tilted(other, MEANS, VARIANCES, jnp.asarray(1.0))
    for one, two in zip(found, (log_mean + gap, *moments), strict=True):
        assert_close(one, two, "quadrature")


def by_mixture(df, power, mean, var):
    """The same by quadrature over the log precision of the mixture (jylanki S65)."""
    other = of_power(df, power)
    square, a = float(other.scale) ** 2, 0.5 * float(other.df)
    u = np.linspace(-90.0, 6.0, 12001)
    spread = var + square * np.exp(-u)
    log_w = a * u - a * np.exp(u) + stats.norm.logpdf(OUTPUT, mean, np.sqrt(spread))
    top = log_w.max()
    w = np.exp(log_w - top)
    log_mean = np.log(w.sum() * (u[1] - u[0])) + top + a * np.log(a) - special.gammaln(a)
    log_mean += power * log_height(SCALE, df) - log_height(float(other.scale), float(other.df))
    w /= w.sum()
    each_var = 1.0 / (1.0 / var + np.exp(u) / square)
    each = each_var * (mean / var + OUTPUT * np.exp(u) / square)
    middle = w @ each
    return log_mean, middle, w @ (each_var + (each - middle) ** 2)


@pytest.mark.parametrize(("df", "power"), [(1.0, 1.0), (1.0, 0.7), (4.0, 0.5), (50.0, 1.0)])
def test_jylanki_37_two_quadratures(df, power):
    """jylanki 37: over f as over the precisions of the mixture; a Cauchy density too."""
    found = tilted(StudentT(SCALE, df), MEANS, VARIANCES, jnp.asarray(power))
    expected = np.array([by_mixture(df, power, *at) for at in zip(MEANS, VARIANCES, strict=True)])
    for one, two in zip(found, expected.T, strict=True):
        assert_close(one, two, "quadrature")


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_jylanki_37_many_degrees_of_freedom_are_gaussian(power):
    """jylanki 37: a variance σ²/η, as ν grows."""
    means, variances = MEANS[MEANS < 5.0], VARIANCES[MEANS < 5.0]
    noise = SCALE**2 / power
    total, r = variances + noise, OUTPUT - means
    log_mean = 0.5 * ((1.0 - power) * np.log(2 * np.pi * SCALE**2) - np.log(power))
    log_mean = log_mean - 0.5 * (np.log(2 * np.pi * total) + r**2 / total)
    expected = log_mean, means + variances * r / total, variances * noise / total
    errors = []
    for df in (1e5, 1e7):
        found = tilted(StudentT(SCALE, df), means, variances, jnp.asarray(power))
        errors.append([np.max(np.abs(a - b)) for a, b in zip(found, expected, strict=True)])
    assert np.max(errors[1]) < 1e-4
    # the next term is of the order 1/ν
    assert np.all(np.array(errors[1]) < 0.02 * np.array(errors[0]))


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_jylanki_38_when_sites_have_negative_precision(power):
    """jylanki 38: where, and only where, the tilted distribution is wider than its cavity.

    For residuals that are neither small nor large; sites of far outliers are flat.
    """
    var, before = 0.4, 0.7
    residuals = np.concatenate([np.linspace(0.0, 8.0, 33), [100.0, 1e4]])
    cavity = [jnp.asarray(a)[:, None] for a in (OUTPUT - residuals, np.full(35, var))]
    found = STUDENT.tilted(*cavity, jnp.full((35, 1), OUTPUT), jnp.asarray(power))
    none = ScalarSites(jnp.zeros((35, 1)), jnp.zeros((35, 1)))
    site = none.moment_match(*cavity, found.slope, found.curvature, power)
    precision, shift = (np.asarray(a)[:, 0] for a in (site.precision, site.shift))

    def log_prob(f):
        return stats.t.logpdf(OUTPUT, DF, f, SCALE)

    marks = [(OUTPUT, SCALE)]
    each = [power_mean(log_prob, marks, OUTPUT - r, np.sqrt(var), power) for r in residuals]
    wider = var * (1.0 + power * np.array(each)[:, 2])
    assert np.array_equal(precision < 0.0, wider > var)
    assert np.array_equal(precision < 0.0, np.asarray(found.curvature)[:, 0] > 0.0)
    # a belief with this site beside the cavity, and what the update makes of it
    belief = 1.0 / (1.0 / var + power * before)
    assert np.array_equal(precision - before < 0.0, wider > belief)
    negative = np.flatnonzero(precision < 0.0)
    assert precision[0] > 0.0
    assert 1.0 < residuals[negative[0]] / SCALE < 10.0
    far = np.abs(precision) * var + np.abs(shift) * np.sqrt(var)
    assert far[-1] < 1e-3 < 0.1 < far.max()
    assert np.all(np.diff(precision[-2:]) > 0.0)


@pytest.mark.parametrize("df", [29.0, 30.0, 31.0, 1e4, 1e8, 1e12, 1e15])
def test_digits_at_any_degrees_of_freedom(df):
    """Differences of log gamma functions lose them all by 1e15."""
    found = float(StudentT(SCALE, df).log_prob(jnp.asarray(1.0), jnp.asarray(1.1)))
    if df < 1e6:
        np.testing.assert_allclose(found, stats.t(df, 1.0, SCALE).logpdf(1.1), rtol=1e-10)
    assert abs(found - stats.norm(1.0, SCALE).logpdf(1.1)) < 0.32 / df + 1e-13
    if df < 100.0:
        slope = jax.grad(
            lambda nu: StudentT(SCALE, nu).log_prob(jnp.asarray(1.0), jnp.asarray(1.1))
        )(df)
        above, below = (stats.t(df + h, 1.0, SCALE).logpdf(1.1) for h in (1e-4, -1e-4))
        np.testing.assert_allclose(slope, (above - below) / 2e-4, rtol=1e-5)
