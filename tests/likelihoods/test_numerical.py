"""Tables of distributions against scipy's."""

import numpy as np
import pytest
from scipy import integrate, stats

from cavity.learning.metrics.regression import crps
from cavity.likelihoods.predictive.numerical import numerical_predictive
from cavity.likelihoods.predictive.tabulated import DistributionTable
from cavity.likelihoods.support import Support

LEVELS = np.array([0.025, 0.25, 0.5, 0.75, 0.975])
REAL = {
    "normal": (stats.norm(1, 2), Support.REAL, 3.0),
    "no mean": (stats.t(1.0), Support.REAL, 5.0),
    "narrow and far out": (stats.t(4.0, 1e6, 1e-3), Support.REAL, 1e6),
    "with a corner": (stats.laplace(0, 1), Support.REAL, 0.0),
    "exponential": (stats.expon(scale=3), Support.POSITIVE, 3.0),
    "infinite at zero": (stats.gamma(0.2, scale=3e-5), Support.POSITIVE, 6e-6),
    "infinite at both ends": (stats.beta(0.3, 0.4), Support.UNIT, 0.42),
    "narrow share": (stats.beta(30, 400), Support.UNIT, 0.07),
}
COUNTS = {
    "few": stats.poisson(0.3),
    "many": stats.poisson(1e4),
    "spread": stats.nbinom(0.5, 0.005),
    "certain": stats.poisson(1e-9),
}


@pytest.mark.parametrize(("law", "support", "centre"), REAL.values(), ids=REAL)
def test_densities(law, support, centre):
    table = numerical_predictive(lambda y: law.logpdf(y), support, np.full(5, centre))
    y = law.ppf(LEVELS)
    width = y[3] - y[1]
    np.testing.assert_allclose(table.cdf(y), LEVELS, atol=1.5e-3)
    np.testing.assert_allclose(table.quantiles(LEVELS)[0][1:4], y[1:4], atol=8e-3 * width)
    assert table.within(y, 0.6).tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("law", COUNTS.values(), ids=COUNTS)
def test_counts(law):
    centre = np.full(5, law.mean())
    table = numerical_predictive(lambda y: law.logpmf(y), Support.COUNTS, centre)
    y = law.ppf(LEVELS)
    np.testing.assert_allclose(table.cdf(y), law.cdf(y), atol=2e-3)
    np.testing.assert_allclose(table.cdf(y - 1), law.cdf(y - 1), atol=2e-3)
    found = table.quantiles(LEVELS)[0]
    np.testing.assert_allclose(found, y, atol=0.05 * law.std() + 1e-9)
    assert np.all(found == np.round(found))
    assert table.cdf(np.full(5, -1.0)).tolist() == [0.0] * 5


def test_intervals_of_counts_hold_their_ends():
    law = stats.poisson(2.0)
    table = numerical_predictive(lambda y: law.logpmf(y), Support.COUNTS, np.full(12, 2.0))
    low, high = law.ppf([0.25, 0.75])
    y = np.arange(12.0)
    np.testing.assert_array_equal(table.within(y, 0.5), (low <= y) & (y <= high))


def test_quantiles_of_tabulated_counts():
    """The smallest counts whose distribution function is at least the level, as for draws."""
    law = stats.poisson([0.4, 3.0, 11.0])
    counts = np.tile(np.arange(64.0)[:, None], 3)
    table = DistributionTable(Support.COUNTS, counts, law.cdf(counts), law.mean(), law.var())
    for level in (0.03, 0.5, 0.97):
        np.testing.assert_array_equal(table.quantile(np.full(3, level)), law.ppf(level))


def test_scores_of_a_normal_distribution():
    mean, std = np.array([0.0, 1.0, -50.0]), np.array([1.0, 0.1, 3.0])
    y = np.array([0.3, 1.4, -20.0])
    law = stats.norm(mean, std)
    table = numerical_predictive(lambda t: law.logpdf(t), Support.REAL, mean)
    each = [crps([a], [m], [s]) for a, m, s in zip(y, mean, std, strict=True)]
    np.testing.assert_allclose(table.crps(y), each, rtol=3e-3)


@pytest.mark.parametrize(
    ("law", "support"),
    [(stats.expon(scale=2.0), Support.POSITIVE), (stats.beta(2, 5), Support.UNIT)],
)
def test_scores_by_integration(law, support):
    y = law.ppf([0.2, 0.9])
    table = numerical_predictive(lambda t: law.logpdf(t), support, np.full(2, law.mean()))
    for found, at in zip(table.crps(y), y, strict=True):
        below = integrate.quad(lambda t: law.cdf(t) ** 2, 0, at)[0]
        above = integrate.quad(lambda t: law.sf(t) ** 2, at, law.ppf(1 - 1e-12))[0]
        assert found == pytest.approx(below + above, rel=5e-3)


def test_scores_of_counts():
    law = stats.poisson(3.5)
    y = np.array([0.0, 3.0, 9.0])
    table = numerical_predictive(lambda k: law.logpmf(k), Support.COUNTS, np.full(3, 3.5))
    k = np.arange(60)
    expected = [np.sum((law.cdf(k) - (k >= at)) ** 2) for at in y]
    np.testing.assert_allclose(table.crps(y), expected, rtol=1e-9)


def test_an_output_beyond_the_table_costs_its_distance():
    law = stats.norm(0, 1)
    table = numerical_predictive(lambda t: law.logpdf(t), Support.REAL, np.zeros(1))
    near, far = (table.crps(np.array([y]))[0] for y in (1e6, 3e6))
    assert far - near == pytest.approx(2e6, rel=1e-6)
