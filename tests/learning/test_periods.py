"""Periods: what columns say of them, where they start, and those that data do not show."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.estimators.settings import Settings, build
from cavity.kernels import RBF, Periodic, SpectralMixture, parse
from cavity.learning.data.arrays import prepare
from cavity.learning.data.cycles import cycles_of, spacing, with_cycles
from cavity.learning.initialisation.periods import candidate_periods
from cavity.learning.results.unseen_periods import unseen_periods
from cavity.likelihoods import Gaussian

NOISE = np.random.default_rng(0).standard_normal(2000)
EVEN = np.linspace(0.0, 20.0, 150)
GRID = 0.1 * np.arange(200.0)[:, None]
UNEVEN = np.sort(np.random.default_rng(1).uniform(0.0, 20.0, 100))


def wave(x, period):
    return np.sin(2.0 * np.pi * x / period)


def test_cycles_are_told_with_their_columns():
    kernel = parse("rbf[0] + linear[2] * periodic[1,3] + 2 * spectral_mixture2[2]", 4)
    found = cycles_of(kernel, range(4))
    assert [cycle.column for cycle in found] == [1, 3, 2, 2]
    assert [cycle.name.rsplit(".", 1)[-1] for cycle in found] == [
        "period[0]",
        "period[1]",
        "frequencies[0, 0]",
        "frequencies[1, 0]",
    ]
    moved = with_cycles(kernel, ((found[1], 7.0), (found[2], 4.0)))
    assert [cycle.period for cycle in cycles_of(moved, range(4))] == [1.0, 7.0, 4.0, 2.0]
    assert [cycle.value for cycle in cycles_of(moved, range(4))] == [1.0, 7.0, 0.25, 0.5]


@pytest.mark.parametrize(
    "kernel", ["rbf + linear", "fourier(rbf, 5)", "conv(periodic, (1, 1), image=(1, 1))"]
)
def test_where_no_kernel_has_a_period_nothing_runs(kernel, monkeypatch):
    monkeypatch.setattr("cavity.learning.initialisation.periods.spacing", None)
    assert candidate_periods(parse(kernel, 1), EVEN[:, None], EVEN[:, None]) == []


def test_one_period_for_all_columns_is_left_as_it_is():
    assert cycles_of(Periodic(period=2.0), [0, 1]) == []


@pytest.mark.parametrize(
    ("x", "step", "span", "even"),
    [
        (np.arange(24.0).repeat(3), 1.0, 24.0, True),
        (np.append(np.arange(10.0), [20.0, 21.0]), 1.0, 22.0, True),
        (np.array([0.0, 31.0, 59.0, 90.0, 120.0, 151.0, 181.0]), 30.5, 211.5, True),
        (UNEVEN, np.median(np.diff(UNEVEN)), np.ptp(UNEVEN) + np.median(np.diff(UNEVEN)), False),
        (np.full(4, 3.0), 0.0, 0.0, False),
    ],
    ids=["hours", "a gap", "months in days", "uneven", "constant"],
)
def test_spacing(x, step, span, even):
    found = spacing(np.random.default_rng(0).permutation(x))
    np.testing.assert_allclose((found.step, found.span), (step, span), rtol=1e-12)
    assert found.even == even


@pytest.mark.parametrize("period", [0.37, 1.9, 6.3])
@pytest.mark.parametrize("x", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_the_highest_peak_is_the_period(x, period):
    y = wave(x, period) + 0.3 * NOISE[: len(x)]
    ((_, periods),) = candidate_periods(Periodic(period=[1.0]), x[:, None], y[:, None])
    tolerance = 0.1 * period**2 / 20.0  # a tenth of what so long a record tells apart
    assert abs(periods[0] - period) < max(tolerance, 0.05 * period)


def test_trends_other_columns_and_missing_outputs_do_not_hide_a_period():
    X = np.column_stack([EVEN, np.random.default_rng(2).uniform(size=150)])
    wanted = wave(EVEN, 1.7) + 0.2 * NOISE[:150]
    y = np.column_stack([wanted + 0.1 * EVEN**2 + 30.0 * X[:, 1], np.full(150, np.nan)])
    y[::7, 0] = np.nan
    first, second = candidate_periods(Periodic(1.0, [1.0, 1.0], [1.0, 1.0]), X, y)
    assert (first.cycle.column, second.cycle.column) == (0, 1)
    np.testing.assert_allclose(first.periods[0], 1.7, rtol=0.01)


def test_doubles_and_all_of_the_column_are_tried_but_nothing_longer():
    hours = np.arange(24.0).repeat(4)[:, None]
    y = wave(hours, 8.0) + 0.1 * NOISE[:96, None]
    ((_, periods),) = candidate_periods(Periodic(period=[1.0]), hours, y)
    np.testing.assert_allclose(periods[0], 8.0, rtol=0.05)
    assert periods[-1] == pytest.approx(24.0)
    assert max(periods) <= 24.0 + 1e-9
    assert candidate_periods(Periodic(period=[1.0]), hours * 0.0, y) == []


# ------------------------------------------------------------------------------ what is found


def test_a_period_is_found():
    """Of the smallest case that once ended at periods of 1,537 to 6,164, evidence -50."""
    y = wave(EVEN, 2.0 * np.pi) + 0.3 * NOISE[:150]
    model: Any = cavity.GPRegressor(kernel="periodic", random_state=0).fit(EVEN[:, None], y)
    np.testing.assert_allclose(model.kernel_.period, [2.0 * np.pi], rtol=0.02)
    assert -45.0 < model.log_evidence_ < -20.0
    assert model.unseen_periods_ == ()


@pytest.mark.slow
def test_two_parts_start_at_two_periods():
    x = np.linspace(0.0, 20.0, 120)
    y = wave(x, 7.0) + wave(x, 1.3) + 0.2 * NOISE[:120]
    model: Any = cavity.GPRegressor(kernel="periodic + periodic", random_state=0).fit(
        x[:, None], y
    )
    found = [float(part.period[0]) for part in (model.kernel_.first, model.kernel_.second)]
    np.testing.assert_allclose(sorted(found), [1.3, 7.0], rtol=0.02)


def test_all_starts_of_a_sparse_model_have_the_period():
    x = np.random.default_rng(3).uniform(0.0, 20.0, 400)
    y = wave(x, 1.7) + 0.5 * NOISE[:400]
    setting = Settings(kernel="rbf + periodic", inducing=x[:15, None])
    starts, _ = build(setting, x[:, None], y[:, None], {})
    for start in starts:
        kernel: Any = start.kernel
        np.testing.assert_allclose(kernel.second.period, [1.7], rtol=0.02)


def test_a_given_kernel_is_used_as_given():
    kernel = Periodic(1.0, [1.0], [3.0])
    model: Any = cavity.GPRegressor(kernel=kernel, max_iterations=0).fit(
        EVEN[:, None], wave(EVEN, 6.0)
    )
    np.testing.assert_array_equal(model.kernel_.period, [3.0])


@pytest.mark.slow
def test_a_trend_does_not_take_the_period():
    """Of 1,000 rows, where the variance of the periodic part once ended at 3e-5."""
    x = np.linspace(0.0, 20.0, 1000)
    y = 3.0 * np.sin(0.2 * x) + 0.03 * x**2 + wave(x, 1.1) + 0.3 * NOISE[:1000]
    model: Any = cavity.GPRegressor(kernel="rbf + periodic", random_state=0).fit(x[:, None], y)
    np.testing.assert_allclose(model.kernel_.second.period, [1.1], rtol=0.01)
    assert model.kernel_.second.variance > 0.1


@pytest.mark.slow
def test_the_year_is_found_in_carbon_dioxide(data_folder):
    path = data_folder / "mauna_loa" / "co2_weekly_statsmodels.csv.gz"
    dates, values = np.genfromtxt(path, str, delimiter=",", skip_header=1, unpack=True)
    kept = np.flatnonzero(values != "")[::8]
    days = dates[kept].astype("datetime64[D]")[:, None]
    model: Any = cavity.GPRegressor(kernel="linear + periodic * rbf", random_state=0)
    model.fit(days, values[kept].astype(float))
    (year,) = cycles_of(model.kernel_, [0])
    assert abs(year.period - 365.24) < 3.0


# ---------------------------------------------------------------------- what data do not show


def unseen(kernel, X):
    with jax.enable_x64(True):
        model = cavity.GP(kernel, Gaussian())
        return unseen_periods(model, prepare(X, X[:, 0]))


@pytest.mark.parametrize("period", [0.201, 6.0, 20.9])
def test_periods_that_even_rows_show(period):
    assert unseen(RBF() + Periodic(period=[period]), GRID) == ()


@pytest.mark.parametrize(
    ("period", "aliased", "alias"),
    [(30.0, False, None), (0.15, True, 0.3), (0.1, True, None), (0.03, True, 0.3)],
)
def test_periods_that_even_rows_do_not_show(period, aliased, alias):
    (one,) = unseen(RBF() + Periodic(period=[period]), GRID)
    assert (one.name, one.column, one.period) == ("kernel.second.period", 0, period)
    assert one.aliased == aliased
    if alias is None:
        assert one.alias is None
        return
    assert one.alias == pytest.approx(alias, rel=1e-6)
    grid = jnp.asarray(GRID)
    turns, same = (Periodic(period=[p]).cross(grid, grid[:1]) for p in (period, alias))
    np.testing.assert_allclose(turns, same, rtol=1e-3)


def test_uneven_rows_show_short_periods_and_trends_are_no_periods():
    assert unseen(Periodic(period=[0.05]), UNEVEN[:, None]) == ()
    slow = SpectralMixture([1.0, 1.0], [[0.0], [0.001]], [[1.0], [1.0]])
    assert unseen(slow, EVEN[:, None]) == ()
    assert unseen(Periodic(period=[1.0, 90.0]), np.column_stack([EVEN, EVEN]))[0].column == 1


def test_a_result_names_periods_that_the_data_do_not_show():
    model = cavity.GP(Periodic(period=[500.0]), Gaussian(0.1))
    result = cavity.fit(model, EVEN[:, None], wave(EVEN, 6.0), max_iterations=0)
    (one,) = result.unseen_periods
    assert one.period == pytest.approx(500.0)
    assert "the period of kernel.period, 500, is longer than the data (20.13)" in result.message
