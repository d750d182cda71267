"""Power means, slopes and curvatures of every likelihood against brute force.

For cavities from a thousandth to a thousand times as wide as the likelihood, with means as far as
ten widths of the wider of the two from its peak.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from cavity import likelihoods
from cavity.likelihoods import AbstractQuadratureLikelihood, Support
from cavity.likelihoods.capabilities import HasAnalyticStrip
from cavity.numerics import quadrature
from tests.oracle.integrals import power_mean
from tests.tolerances import assert_close

POWERS = [0.0, 0.01, 0.5, 1.0]
WIDTHS = np.array([1e-3, 0.03, 0.3, 1.0, 4.0, 30.0, 1e3])
AWAY = np.array([-10.0, -3.0, -0.4, 0.0, 1.7, 10.0])
# Where means of exponentials are larger than this, in logarithms, they are not compared.
LARGEST = 300.0


class Logistic(AbstractQuadratureLikelihood):
    """Noise of which the package knows only the density: its features are searched."""

    scale: float
    support = Support.REAL

    def log_prob(self, f, y, **side):
        z = jnp.abs(y - f) / self.scale
        return -z - 2.0 * jnp.log1p(jnp.exp(-z)) - jnp.log(self.scale)


def student_t(y, f, scale, df):
    z = (y - f) / scale
    height = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - np.log(df * np.pi) / 2
    return height - np.log(scale) - (df + 1) / 2 * np.log1p(z**2 / df)


def poisson(y, f):
    return y * f - np.exp(np.minimum(f, 700.0)) - special.gammaln(y + 1)


def negative_binomial(y, f, d):
    r, growth = 1 / d, np.logaddexp(0.0, f + np.log(d))
    ways = special.gammaln(y + r) - special.gammaln(r) - special.gammaln(y + 1)
    return ways + y * (f + np.log(d) - growth) - r * growth


def gamma(y, f, k):
    log_rate = np.log(k) - f
    rate = np.exp(np.minimum(log_rate + np.log(y), 700.0))
    return k * log_rate - special.gammaln(k) + (k - 1) * np.log(y) - rate


def beta(y, f, c):
    log_a, log_b = (np.log(c) + special.log_expit(s) for s in (f, -f))
    a, b = np.exp(log_a), np.exp(log_b)
    norm = special.gammaln(c) - special.gammaln(1 + a) - special.gammaln(1 + b) + log_a + log_b
    return norm + (a - 1) * np.log(y) + (b - 1) * np.log1p(-y)


def ordinal(low, high, f):
    low, high = low - f, high - f
    flip = low + high > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    upto = special.log_ndtr(high)
    return upto + np.log(-np.expm1(np.minimum(special.log_ndtr(low) - upto, -1e-300)))


# Name: the likelihood, and for each output its log density, features, centre and width.
EDGES = [-0.7, 0.4, 0.5, 9.0]
CASES = {
    "probit": (likelihoods.Bernoulli(), {1.0: (special.log_ndtr, [(0.0, 1.0)])}),
    "logit": (likelihoods.Bernoulli("logit"), {0.0: (lambda f: special.log_expit(-f), [(0, 1)])}),
    **{
        f"student_t{df:g}": (
            likelihoods.StudentT(0.3, df),
            {1.1: (lambda f, df=df: student_t(1.1, f, 0.3, df), [(1.1, 0.3)])},
        )
        for df in (1.0, 4.0, 50.0)
    },
    "laplace": (
        likelihoods.Laplace(0.2),
        {1.1: (lambda f: -np.abs(1.1 - f) / 0.2 - np.log(0.4), [(1.1, 0.2)])},
    ),
    "poisson": (
        likelihoods.Poisson(),
        {
            y: (
                lambda f, y=y: poisson(y, f),
                [(np.log(max(y, 0.5)), max(y, 1.0) ** -0.5), (4.6, 1.0), (0.0, 1.0)],
            )
            for y in (0.0, 1.0, 7.0, 3000.0)
        },
    ),
    **{
        f"negative_binomial{d:g}": (
            likelihoods.NegativeBinomial(d),
            {
                y: (
                    lambda f, y=y, d=d: negative_binomial(y, f, d),
                    [
                        (np.log(max(y, 0.5)), ((1 + d * y) / max(y, 1.0)) ** 0.5),
                        *((p, 1.0) for p in (0.0, 4.6, -np.log(d))),
                    ],
                )
                for y in (0.0, 1.0, 40.0, 3000.0)
            },
        )
        for d in (0.01, 0.7, 5.0)
    },
    **{
        f"gamma{k:g}": (
            likelihoods.Gamma(k),
            {
                y: (
                    lambda f, y=y, k=k: gamma(y, f, k),
                    [
                        (np.log(y), max(k, 1.0) ** -0.5),
                        *((np.log(y * a), 1.0) for a in (k, k / 100)),
                    ],
                )
                for y in (0.02, 3.0)
            },
        )
        for k in (0.2, 2.0, 100.0)
    },
    "exponential": (
        likelihoods.Exponential(),
        {
            y: (lambda f, y=y: gamma(y, f, 1.0), [(np.log(y), 1.0), (np.log(y / 100), 1.0)])
            for y in (0.02, 3.0)
        },
    ),
    **{
        f"beta{c:g}": (
            likelihoods.Beta(c),
            {
                y: (
                    lambda f, y=y, c=c: beta(y, f, c),
                    [
                        (special.logit(y), (1 + c * y * (1 - y)) ** -0.5),
                        *((p, 1.0) for p in (0.0, np.log(c), -np.log(c))),
                    ],
                )
                for y in (0.001, 0.3, 0.97)
            },
        )
        for c in (0.5, 10.0, 400.0)
    },
    "ordinal": (
        likelihoods.OrdinalProbit(EDGES),
        {
            float(k): (
                lambda f, k=k: ordinal([-np.inf, *EDGES][k], [*EDGES, np.inf][k], f),
                [(e, 1.0) for e in [*EDGES[max(k - 1, 0) : k], *EDGES[k : k + 1]]],
            )
            for k in range(5)
        },
    ),
    "logistic": (
        Logistic(0.3),
        {
            1.1: (
                lambda f: (
                    -np.logaddexp(0, (f - 1.1) / 0.3)
                    - np.logaddexp(0, (1.1 - f) / 0.3)
                    - np.log(0.3)
                ),
                [(1.1, 0.3)],
            )
        },
    ),
}
EXPONENTIAL = {"poisson": 1.0, "gamma": -1.0, "exponential": -1.0}


def grid(name, power):
    """Rows of output, mean and deviation."""
    rows = []
    for y, (_, features) in CASES[name][1].items():
        centre, width = features[0]
        for sd in width * WIDTHS:
            rows += [(y, centre + t * max(sd, width), sd) for t in AWAY]
    rows = np.array(rows)
    sign = EXPONENTIAL.get(name.rstrip("0123456789."), 0.0)
    top = sign * rows[:, 1] + rows[:, 2] ** 2
    return rows[top < LARGEST] if sign and power == 0.0 else rows


def traced(power):
    """Powers between 0 and 1 share a program; the ends have closed forms of their own."""
    return jnp.asarray(power) if 0.0 < power < 1.0 else power


@eqx.filter_jit
def found(likelihood, mean, var, y, power):
    tilted = likelihood.tilted(mean, var, y, power)
    value = likelihood.log_power_mean(mean, var, y, power)
    scaled = [value, tilted.slope * jnp.sqrt(var), tilted.curvature * var]
    return jnp.stack([*scaled, tilted.log_mean])


def errors(name, power):
    """Errors of value, slope and curvature, relative where those are above 1."""
    likelihood, cases = CASES[name]
    rows = grid(name, power)
    y, mean, sd = rows.T
    *values, same = np.asarray(found(likelihood, mean, sd**2, y, traced(power)))
    np.testing.assert_allclose(same, values[0], rtol=1e-12, atol=1e-12)
    expected = np.array([power_mean(*cases[y], m, s, power) for y, m, s in rows]).T
    # a curvature has at least the rounding errors of the value
    scale = np.maximum(np.abs(expected), 1.0)
    scale[2] = np.maximum(scale[2], 1e-6 * scale[0])
    return np.abs(np.array(values) - expected) / scale, rows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", CASES)
def test_against_brute_force(name, power):
    """jylanki 9, bui 21: m + a v G and v + a v² H are the tilted moments, in closed form too."""
    error, rows = errors(name, power)
    worst = rows[np.argmax(error, axis=1)]
    assert np.all(np.max(error, axis=1) < [1e-7, 1e-6, 1e-6]), (np.max(error, axis=1), worst)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("power", [0.4, 1.0])
@pytest.mark.parametrize("name", ["probit", "logit", "student_t4", "laplace"])
def test_jylanki_08_moments_are_slopes_in_natural_parameters(name, power):
    """jylanki 8: E[f] and -E[f²] / 2, tilted less the cavity's, are the slopes of log Z."""
    likelihood, cases = CASES[name]
    ((y, (log_prob, features)),) = cases.items()
    means, sds = (np.ravel(a) for a in np.meshgrid([-2.0, 0.3, 3.0], [0.2, 0.8, 3.0]))
    shift, precision = jnp.asarray(means / sds**2), jnp.asarray(1.0 / sds**2)

    @jax.jit
    def slopes(shift, precision):
        def log_z(shift, precision):
            cavity = shift / precision, 1.0 / precision
            return power * jnp.sum(likelihood.log_power_mean(*cavity, jnp.full(9, y), power))

        return jax.grad(log_z, (0, 1))(shift, precision)

    each = np.array(
        [power_mean(log_prob, features, *at, power) for at in zip(means, sds, strict=True)]
    )
    mean = means + power * sds * each[:, 1]
    var = sds**2 * (1.0 + power * each[:, 2])
    by_shift, by_precision = slopes(shift, precision)
    assert_close(by_shift + means, mean, "fixed_point")
    square = by_precision - 0.5 * (sds**2 + means**2)
    assert_close(square, -0.5 * (var + mean**2), "fixed_point")


SMOOTH = [
    name
    for name, (likelihood, outputs) in CASES.items()
    if isinstance(likelihood, HasAnalyticStrip)
]


@eqx.filter_jit
def kept_by(mean, var, centre, strip, count, stretched):
    """Whether the even rule of so many nodes is used."""
    entries = (mean, var, centre, strip)
    even = lambda *entry: quadrature.even_measure(*entry, count, stretched=stretched)  # noqa: E731
    return jax.vmap(even)(*entries)[1]


def of_rows(name, power, mean, sd, y):
    """`found` by the tilted moments, in the program of `test_against_brute_force`."""
    room = (0, len(grid(name, power)) - len(mean))
    mean, sd = (np.pad(x, room, mode="edge") for x in (mean, sd))
    out = found(CASES[name][0], mean, sd**2, np.full_like(mean, y), traced(power))
    return np.asarray(out)[[3, 1, 2]]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("count", quadrature.EVEN_RULE.counts)
def test_few_nodes_where_they_do(name, power, count):
    """The even rules by themselves, out to where they are left for the graded one."""
    likelihood, outputs = CASES[name]
    for y, (log_prob, features, *_) in outputs.items():
        centre, strip = (float(x) for x in likelihood.analytic_strip(jnp.asarray(y)))
        stretched = likelihood.analytic_in_cone and count > quadrature.EVEN_RULE.counts[0]
        reach = 20.0 if stretched else 1.4 * count / quadrature.EVEN_RULE.counts[0]
        widths = strip * np.array([1e-3, 0.1 * reach, 0.4 * reach, 0.7 * reach, reach])
        cases = [(centre + z * sd, sd) for sd in widths for z in (-6.0, -1.0, 0.0, 2.0, 6.0)]
        mean, sd = (jnp.asarray(x) for x in zip(*cases, strict=True))
        marks = (jnp.full_like(mean, centre), jnp.full_like(mean, strip))

        kept = np.flatnonzero(np.asarray(kept_by(mean, sd**2, *marks, count, stretched)))
        assert len(kept) > 15
        ours = of_rows(name, power, mean, sd, y).T[kept]
        expected = [power_mean(log_prob, features, *cases[i], power) for i in kept]
        np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=2e-7)
