"""The end of a series, simulated from its beginning: what is held out, widened and compared."""

import types

import jax
import numpy as np
import pytest
from scipy import stats

from cavity.estimators.latent_map import Standardised
from cavity.estimators.time_map import Outlook
from cavity.learning import free_simulation as module
from cavity.learning.diagnostics.lagged_outputs import LaggedOutputs
from cavity.learning.free_simulation import FreeSimulation, free_simulation
from cavity.likelihoods import Gaussian
from cavity.models.state_space.posterior import StateSpacePosterior


def autoregression(rows=3000, noise=0.3, seed=0):
    """An autoregression of second order with one control, of which least squares is right."""
    random = np.random.default_rng(seed)
    u, y = random.standard_normal((rows, 1)), [0.0, 0.0]
    for t in range(2, rows):
        y.append(1.2 * y[-1] - 0.5 * y[-2] + 0.4 * u[t, 0] + noise * random.standard_normal())
    return np.array(y)[:, None], u


def test_lags_are_found_with_their_noise():
    y, u = autoregression()
    seen = y.copy()
    seen[100:110] = np.nan
    lags = LaggedOutputs.learn(seen, y, u)
    assert lags.lags == 2
    np.testing.assert_allclose(lags.weights.ravel(), [1.2, -0.5, 0.4, 0.0, 0.0], atol=0.03)
    assert lags.noise == pytest.approx(0.3, rel=0.05)


def test_free_simulation_of_lags_has_the_moments_of_the_process():
    y, u = autoregression()
    lags = LaggedOutputs.learn(y, y, u)
    after = np.zeros((60, 1))
    paths = lags.simulated(after, 4000)[:, :, 0]
    mean, start = [], [y[-1, 0], y[-2, 0]]
    control = [u[-1, 0]]  # the last known control counts for nothing here
    for _ in range(3):
        start = [1.2 * start[0] - 0.5 * start[1] + 0.0 * control[0], start[0]]
        mean.append(start[0])
    np.testing.assert_allclose(paths[:, :3].mean(axis=0), mean, atol=0.08)
    # variance of an autoregression of second order with coefficients a and b
    a, b = 1.2, -0.5
    stationary = 0.09 * (1 - b) / ((1 + b) * ((1 - b) ** 2 - a**2))
    assert paths[:, -1].var() == pytest.approx(stationary, rel=0.15)


def test_several_outputs_and_no_controls():
    random = np.random.default_rng(1)
    y = np.cumsum(random.standard_normal((120, 2)), axis=0)
    lags = LaggedOutputs.learn(y, y, np.zeros((120, 0)))
    assert lags.simulated(np.zeros((7, 0)), 5).shape == (5, 7, 2)


# never asked anything: what follows it is put in its place
POSTERIOR = object.__new__(StateSpacePosterior)


def told_by(mean, deviation, monkeypatch, rows):
    """A posterior whose forecasts are these, and what its search was given."""
    given = {}

    def forecast(steps, X, **_):
        given["steps"], given["future"] = steps, X
        q = stats.norm.ppf(module.LEVELS)[:, None, None]
        return types.SimpleNamespace(
            mean=np.full((steps, 1), mean),
            var=np.full((steps, 1), deviation**2),
            quantile=lambda levels: mean + deviation * np.broadcast_to(q, (19, steps, 1)),
        )

    def follow(posterior, Y, X, **options):
        given["past"], given["controls"] = Y, X
        ahead = types.SimpleNamespace(forecast=forecast)
        return types.SimpleNamespace(posterior=ahead, interrupted=False)

    monkeypatch.setattr(module, "follow_states", follow)
    y, u = autoregression(rows)
    found = free_simulation(POSTERIOR, y, u)
    assert found is not None
    return found, y, u, given


def test_rows_that_are_held_out_are_not_seen(monkeypatch):
    _, y, u, given = told_by(0.0, 1.0, monkeypatch, 150)
    np.testing.assert_array_equal(given["past"], y[:120])
    np.testing.assert_array_equal(given["controls"], u[:120])
    np.testing.assert_array_equal(given["future"], u[120:])


def test_forecasts_are_widened_to_what_came(monkeypatch):
    """A deviation that is too small is multiplied by what it lacks; one that is right stays."""
    monkeypatch.setattr(module, "AS_EXPECTED", 0.0)
    wide, y, *_ = told_by(0.0, 0.1, monkeypatch, 1000)
    true = float(np.sqrt(np.mean(y[-200:] ** 2)))
    assert wide.widening[0] == pytest.approx(true / 0.1)
    assert wide.coverage[0] < 0.4
    right = told_by(0.0, true, monkeypatch, 1000)[0]
    assert right.widening[0] == pytest.approx(1.0)
    assert right.coverage[0] == pytest.approx(0.9, abs=0.05)
    # the score of a Gaussian about outputs that scatter as it does is its deviation over √π
    assert right.crps[0] == pytest.approx(true / np.sqrt(np.pi), rel=0.05)
    assert wide.crps[0] == pytest.approx(right.crps[0])
    # a quiet end is no reason for narrower forecasts
    assert told_by(0.0, 9.0, monkeypatch, 1000)[0].widening == (1.0,)


def test_rows_that_deviate_alike_count_as_few():
    """With a correlation of 0.95 two hundred rows say of their size what ten say that are
    independent, so that half of the excess of their mean square is believed."""
    random = np.random.default_rng(0)
    independent = 3.0 * random.standard_normal(200)
    square = np.mean(independent**2)
    expected = np.sqrt((10.0 + 200.0 * square) / 210.0)
    assert module._widening(independent) == pytest.approx(expected, rel=0.01)
    slow = [0.0]
    for _ in range(20000):
        slow.append(0.95 * slow[-1] + random.standard_normal())
    piece = np.array(slow[1:])
    piece *= 3.0 / np.sqrt(np.mean(piece**2))
    pieces = [module._widening(part) ** 2 for part in np.split(piece, 100)]
    assert np.mean(pieces) == pytest.approx(0.5 + 0.5 * 9.0, rel=0.2)
    assert module._widening(np.array([np.nan, 0.1, np.nan])) == 1.0


def test_the_better_model_is_named(monkeypatch):
    """Controls explain half of the variance, which a forecast by the mean alone does not know."""
    worse = told_by(0.0, 1.0, monkeypatch, 400)[0]
    assert worse.better == "lags"
    assert worse.crps_lags[0] < 0.9 * worse.crps[0]
    assert "a linear model of lagged outputs tells them better" in worse.message
    assert worse.to_dict()["better"] == "lags"
    two = FreeSimulation(20, 3, (0.1, 0.2), (0.2, 0.4), (0.5, 0.75), (0.9, 0.9), (2.0, 1.5))
    assert two.better == "model"
    assert "held 50 % and 75 % of the last 20 rows" in two.message
    assert "widened by 2 and 1.5" in two.message


def test_short_series_are_not_simulated():
    y, u = autoregression(99)
    assert free_simulation(POSTERIOR, y, u) is None
    y, u = autoregression(150)
    y[:60] = np.nan
    assert free_simulation(POSTERIOR, y, u) is None


def test_paths_without_end_are_judged_too(monkeypatch):
    found = told_by(np.nan, 1.0, monkeypatch, 150)[0]
    assert np.all(np.isfinite([*found.crps, *found.widening]))
    assert found.better == "lags"


def test_widened_distributions():
    """Means stay, deviations and intervals grow by the factor, and densities integrate to one."""
    with jax.enable_x64(True):
        standard = Gaussian(0.5).predictive(np.array([[1.0, 2.0]]), np.full((1, 2), 0.25), {})
    columns = Standardised(np.array([10.0, 0.0]), np.array([2.0, 1.0]))
    wide = Outlook(standard, columns, widening=np.array([3.0, 1.0]))
    deviation = np.array([2.0 * 3.0, 1.0]) * 0.75**0.5
    moments = wide.moments()
    np.testing.assert_allclose(moments.mean, [[12.0, 2.0]])
    np.testing.assert_allclose(moments.std, [deviation])
    at = {"loc": np.array([12.0, 2.0]), "scale": deviation}
    np.testing.assert_allclose(
        wide.quantiles([0.9])[0, :, 0], stats.norm.ppf(0.9, **at), rtol=1e-6
    )
    y = np.array([[13.0, 1.5]])
    np.testing.assert_allclose(wide.log_density(y)[0], stats.norm.logpdf(y[0], **at), rtol=1e-6)
