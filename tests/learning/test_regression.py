import numpy as np
import pytest
from scipy import integrate, stats

from cavity.learning.metrics import regression as metrics


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=40), rng.uniform(0.5, 2.0, 40)
    y = mean + std * rng.normal(size=40)
    return y, mean, std, stats.norm.logpdf(y, mean, std)


def test_errors_by_hand():
    y, mean = np.array([1.0, 2.0, 6.0]), np.array([1.0, 4.0, 5.0])
    assert metrics.rmse(y, mean) == pytest.approx(np.sqrt(5 / 3))
    assert metrics.mae(y, mean) == pytest.approx(1.0)
    assert metrics.smse(y, mean) == pytest.approx((5 / 3) / (14 / 3))
    assert metrics.nlpd(np.array([-1.0, -2.0])) == 1.5


def test_the_trivial_prediction_scores_one_and_zero(case):
    """bui, metric definitions: SMSE 1 for the test mean, SMLL 0 for the training Gaussian."""
    y = case[0]
    assert metrics.smse(y, np.full_like(y, y.mean())) == pytest.approx(1.0)
    trivial = stats.norm.logpdf(y, 0.3, np.sqrt(1.7))
    assert metrics.smll(y, trivial, 0.3, 1.7) == pytest.approx(0.0, abs=1e-14)
    assert metrics.smll(y, trivial + 0.1, 0.3, 1.7) == pytest.approx(-0.1)


def test_smll_does_not_depend_on_the_units(case):
    y, mean, std, density = case
    scaled = stats.norm.logpdf(1e9 * y, 1e9 * mean, 1e9 * std)
    assert metrics.smll(1e9 * y, scaled, 0.3e9, 1.7e18) == pytest.approx(
        metrics.smll(y, density, 0.3, 1.7)
    )


def test_crps_is_its_integral(case):
    y, mean, std, _ = case
    total = 0.0
    for n in range(5):
        below, _ = integrate.quad(
            lambda t, n=n: stats.norm.cdf(t, mean[n], std[n]) ** 2, -np.inf, y[n]
        )
        above, _ = integrate.quad(
            lambda t, n=n: stats.norm.sf(t, mean[n], std[n]) ** 2, y[n], np.inf
        )
        total += below + above
    assert metrics.crps(y[:5], mean[:5], std[:5]) == pytest.approx(total / 5, rel=1e-8)


def test_crps_without_spread_is_the_absolute_error(case):
    y, mean, std, _ = case
    assert metrics.crps(y, mean, 0.0 * std) == pytest.approx(metrics.mae(y, mean))
    assert metrics.crps(y, mean, 1e-9 * std) == pytest.approx(metrics.mae(y, mean), rel=1e-6)


def test_infinite_deviation_scores_infinity_without_warnings(case):
    y, mean, std, _ = case
    assert metrics.crps(y, mean, np.inf * std) == np.inf
    assert metrics.coverage(y, mean, np.inf * std, 0.5) == 1.0


def test_coverage_counts_the_inside():
    y, mean, std = np.array([0.0, 0.6, 0.7, -1.7, 2.0]), np.zeros(5), np.ones(5)
    assert metrics.coverage(y, mean, std, 0.50) == pytest.approx(2 / 5)
    assert metrics.coverage(y, mean, std, 0.90) == pytest.approx(3 / 5)
    assert metrics.coverage(y, mean, std, 0.95) == pytest.approx(4 / 5)


def test_coverage_of_a_large_sample_is_the_level():
    y = np.random.default_rng(1).normal(size=100_000)
    for level in (0.5, 0.9, 0.95):
        covered = metrics.coverage(y, np.zeros_like(y), np.ones_like(y), level)
        assert covered == pytest.approx(level, abs=0.006)


def test_the_record_has_the_documented_keys(case):
    record = metrics.regression_metrics(*case, 0.3, 1.7)
    assert list(record) == [
        "rmse",
        "mae",
        "nlpd",
        "smse",
        "smll",
        "crps",
        "coverage_50",
        "coverage_90",
        "coverage_95",
    ]
    assert all(type(value) is float for value in record.values())
    assert record["nlpd"] == pytest.approx(-np.mean(case[3]))
    assert metrics.average_metrics([record, record]) == pytest.approx(record)


CUTS = [slice(0, 1), slice(1, 12), slice(12, 14), slice(14, 40)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tabulated", [False, True])
def test_sums_of_parts_give_what_all_rows_give(case, weighted, tabulated):
    """The parts differ much in their means, and one holds a single row."""
    arrays = [np.copy(a) for a in case]
    arrays[0][12:] += 300.0
    weights = np.random.default_rng(2).uniform(0.0, 3.0, 40) if weighted else None
    scores = metrics.Scores(
        np.linspace(1.0, 2.0, 40), {level: arrays[0] > level for level in metrics.LEVELS}
    )

    def cut(rows):
        own = metrics.Scores(
            scores.crps[rows], {level: inside[rows] for level, inside in scores.within.items()}
        )
        heavy = None if weights is None else weights[rows]
        given = (a[rows] for a in arrays)
        return metrics.regression_sums(
            *given, 0.3, 1.7, scores=own if tabulated else None, weights=heavy
        )

    a, b, c, d = (cut(rows) for rows in CUTS)
    whole = metrics.regression_metrics(
        *arrays, 0.3, 1.7, scores=scores if tabulated else None, weights=weights
    )
    for found in ((a + b) + (c + d), a + (b + (c + d))):
        assert list(found.metrics()) == list(whole)
        assert found.metrics() == pytest.approx(whole, rel=1e-12)
    variance = np.average(
        (arrays[0] - np.average(arrays[0], weights=weights)) ** 2, weights=weights
    )
    squares = np.average((arrays[0] - arrays[1]) ** 2, weights=weights)
    assert whole["smse"] == pytest.approx(squares / variance, rel=1e-12)


def test_targets_that_are_constant_in_parts_have_a_variance_where_the_parts_differ():
    one = np.ones(3)
    same, other = (metrics.regression_sums(y * one, one, one, one, 0.0, 1.0) for y in (0.1, 0.3))
    assert np.isnan((same + same).metrics()["smse"])
    assert (same + other).metrics()["smse"] == pytest.approx((0.81 + 0.49) / 2 / 0.01)


def test_rows_without_weight_are_no_mean(case):
    nothing = metrics.regression_sums(*case, 0.3, 1.7, weights=np.zeros(40))
    with pytest.raises(ZeroDivisionError, match="all weights are zero"):
        nothing.metrics()
    some = metrics.regression_sums(*case, 0.3, 1.7)
    assert (nothing + some).metrics() == pytest.approx(some.metrics(), rel=1e-12)
    assert (some + nothing).metrics() == pytest.approx(some.metrics(), rel=1e-12)
    with pytest.raises(ValueError, match=r"one weight for each row: given \(1,\)"):
        metrics.rmse(case[0], case[1], [2.0])


def test_one_row_and_constant_targets_are_legitimate():
    one = np.array([2.0])
    record = metrics.regression_metrics(one, one + 1, one, -one, 2.0, 0.0)
    assert np.isnan(record["smse"])
    assert np.isnan(record["smll"])
    assert record["rmse"] == 1.0


@pytest.mark.parametrize(
    ("y", "mean", "match"),
    [
        ([1.0, 2.0], [1.0], r"y of shape \(2,\), mean of shape \(1,\)"),
        ([[1.0]], [[1.0]], "one-dimensional"),
        ([], [], "at least one test row"),
        ([1.0, np.nan], [1.0, 1.0], "y is NaN at position 1"),
    ],
)
def test_bad_input_says_what_was_given(y, mean, match):
    with pytest.raises(ValueError, match=match):
        metrics.rmse(np.array(y), np.array(mean))
