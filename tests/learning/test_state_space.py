"""Learning state-space models: states from the past, and forecasts that do not run away."""

import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import links_of
from cavity.learning.initialisation.state_space import (
    StateSpaceStart,
    filled_in_time,
    lagged_states,
    linear_start,
    ridge,
    subspace_states,
)
from cavity.learning.plans import state_space
from cavity.learning.plans.state_space import fit_state_space
from cavity.learning.plans.state_space_update import follow_states
from cavity.models.state_space.start import interpolated
from tests.tolerances import assert_close


def test_states_of_a_linear_system_are_found_up_to_their_coordinates():
    rng = np.random.default_rng(0)
    A, B = np.array([[0.9, 0.3], [-0.3, 0.9]]), np.array([[0.5, -0.2]])
    u, x = rng.normal(size=(400, 1)), np.zeros((400, 2))
    for t in range(1, 400):
        x[t] = x[t - 1] @ A + u[t] @ B
    y = x[:, :1] + 1e-3 * rng.normal(size=(400, 1))
    series = np.zeros(400)
    states = subspace_states(y, u, series, 2)
    ones = np.ones((400, 1))
    explained = np.concatenate([states, ones], axis=1)
    left = x - explained @ ridge(explained, x)
    assert np.all(left[20:].std(axis=0) < 0.05 * x.std(axis=0))
    start = linear_start(y, u, series, states)
    found = np.sort_complex(np.linalg.eigvals(start.transition[0][:2]))
    np.testing.assert_allclose(found, np.sort_complex(np.linalg.eigvals(A)), atol=0.03)


def test_lagged_outputs_are_states_whose_transition_is_an_autoregression():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(300, 1))
    for t in range(2, 300):
        Y[t] = 1.2 * Y[t - 1] - 0.5 * Y[t - 2] + rng.normal()
    series = np.repeat([0, 1], [280, 20])
    states = lagged_states(Y, series, 3)
    expected = np.stack([Y[:, 0], np.roll(Y[:, 0], 1), np.roll(Y[:, 0], 2)], axis=1)
    expected[[0, 280], 1] = Y[[0, 280], 0]
    expected[[0, 1, 280, 281], 2] = Y[[0, 0, 280, 280], 0]
    expected -= expected.mean(axis=0)
    assert_close(states, expected / expected.std(axis=0))
    scale = expected.std(axis=0)
    weights = linear_start(Y, np.zeros((300, 0)), series, states).transition[0]
    found = weights / scale[:, None] * scale
    np.testing.assert_allclose(found[:, 0], [1.2, -0.5, 0.0], atol=0.15)
    np.testing.assert_allclose(found[:, 1:], np.eye(3)[:, :2], atol=0.05)
    constant = lagged_states(np.ones((5, 1)), np.zeros(5), 2)
    np.testing.assert_array_equal(constant, 0.0)


@pytest.mark.slow
def test_both_kinds_of_states_are_tried_with_both_variances():
    """Henon's map, a quadratic function of lagged outputs: these lead."""
    y = np.zeros((40, 1))
    for t in range(2, 40):
        y[t] = 1.0 - 1.4 * y[t - 1] ** 2 + 0.3 * y[t - 2]
    y = (y - y.mean()) / y.std()
    result = fit_state_space(StateSpaceStart(2, 5), y, max_iterations=21)
    assert len(result.trials) == 4
    assert min(result.trials) == min(result.trials[2:])
    assert result.objective <= min(result.trials)


def test_missing_outputs_are_filled_within_their_series():
    Y = np.array([[1.0], [np.nan], [3.0], [np.nan], [np.nan], [5.0]])
    filled = filled_in_time(Y, np.array([0, 0, 0, 0, 1, 1]))
    np.testing.assert_allclose(filled[:, 0], [1.0, 2.0, 3.0, 3.0, 5.0, 5.0])


def test_outputs_that_a_search_starts_from_do_not_cross_series():
    """Against numpy's interpolation of one series at a time; a series without values of an output
    has the mean of all, and padding belongs to no series."""
    random = np.random.default_rng(0)
    y, series = random.standard_normal((12, 2)), np.repeat([0.0, 1.0, 2.0, -1.0], [5, 3, 2, 2])
    present = np.ones((12, 2))
    present[[1, 2, 4, 5, 10, 11], 0] = 0.0  # gaps on both sides of a boundary
    present[5:8, 1] = 0.0  # nothing of the second series
    present[10:] = 0.0
    expected = np.empty((10, 2))
    for label in (0.0, 1.0, 2.0):
        rows = np.flatnonzero(series == label)
        for p in range(2):
            seen = rows[present[rows, p] > 0.0]
            everything = y[present[:, p] > 0.0, p].mean()
            expected[rows, p] = np.interp(rows, seen, y[seen, p]) if len(seen) else everything
    data = Rows(jnp.zeros((12, 0)), jnp.asarray(y), jnp.asarray(present), {"series": series})
    found = interpolated(data, links_of(data))
    assert_close(found[:10], expected)
    assert np.all(np.isfinite(found))


@pytest.mark.slow
def test_a_series_that_grows_has_forecasts_that_do_not_explode():
    t = np.arange(40)
    y = (1.04**t)[:, None]
    y = (y - y.mean()) / y.std() + 0.01 * np.random.default_rng(0).normal(size=(40, 1))
    result = fit_state_space(StateSpaceStart(1, 5, "identity"), y, max_iterations=5)
    weights = np.asarray(result.model.transition.mean.weights)
    assert abs(weights[0, 0]) <= 0.995
    far = result.posterior.forecast(400, propagation="linearised").mean
    assert np.max(np.abs(far)) < 20.0


def test_several_series_share_their_dynamics():
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.normal(size=(30, 1)), axis=0) * 0.2
    labels = np.repeat(["a", "b", "c"], 10)
    asked = StateSpaceStart(1, 5, "identity")
    result = fit_state_space(asked, y, series=labels, max_iterations=3)
    future = result.posterior.forecast(4, propagation="moments")
    assert future.mean.shape == (3, 4, 1)
    assert np.all(result.posterior.states.cross[[0, 10, 20]] == 0.0)
    assert isinstance(result.model, cavity.GPSSM)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [None, 8, 1000])
def test_learning_with_one_site_for_each_state(batch, tmp_path):
    """From its usual start, with all rows, some, and a minibatch larger than the table; what was
    learned forecasts, is saved, and goes on with further rows."""
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.normal(size=(24, 1)), axis=0) * 0.2
    y[5] = np.nan
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Moments(), batch=batch, max_sweeps=60)
    labels = np.repeat(["a", "b", "c"], [11, 1, 12])
    asked, options = StateSpaceStart(1, 4, "identity"), {"power": 0.5, "max_iterations": 5}
    result = fit_state_space(asked, y, series=labels, method=method, **options)
    # of minibatches, means over three passes
    count = 9 if batch == 8 else 1
    assert np.mean(result.history[-count:]) < np.mean(result.history[:count])
    future = result.posterior.forecast(4, propagation="moments")
    assert future.mean.shape == (3, 4, 1)
    assert result.posterior.smoothed().mean.shape == (24, 1)
    cavity.fitting.save_module(tmp_path / "model", result.posterior, {})
    again = cavity.fitting.load_module(tmp_path / "model")[0].forecast(4, propagation="moments")
    np.testing.assert_array_equal(again.mean, future.mean)


@pytest.mark.slow
def test_states_with_one_site_each_follow_further_rows():
    y = np.sin(0.4 * np.arange(24.0))[:, None]
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Moments())
    asked = StateSpaceStart(1, 4, "identity")
    result = fit_state_space(asked, y[:20], method=method, max_iterations=3)
    more = follow_states(result.posterior, y, method=method)
    assert more.posterior.states.mean.shape == (24, 1)
    again = cavity.infer(result.model, None, y, power=0.0, method=method)
    assert more.log_evidence == pytest.approx(again.log_evidence, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 4])
def test_series_of_one_step_are_learned(rows):
    y = np.linspace(-1.0, 1.0, 4)[:rows, None]
    asked = StateSpaceStart(1, 2, "identity")
    found = fit_state_space(asked, y, series=np.arange(rows), max_iterations=1)
    assert np.isfinite(found.log_evidence)


def test_what_tied_states_are_not_for_is_refused_before_another_fit(monkeypatch):
    monkeypatch.setattr(state_space, "state_space_plan", None)
    y = np.append(np.sin(np.arange(9.0)), np.nan)[:, None]
    for settings, power in (({"natural": 0.1}, 0.5), ({}, 1.0)):
        method = cavity.TiedPowerEP(batch=5, **settings)
        with pytest.raises(ValueError, match=r"natural|one term touches"):
            fit_state_space(StateSpaceStart(1), y, power=power, method=method)


@pytest.mark.slow
def test_learning_with_sites_on_states_starts_from_its_own():
    y = np.sin(0.4 * np.arange(16.0))[:, None]
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Moments(), input_sites=True)
    asked = StateSpaceStart(1, 4, "identity")
    result = fit_state_space(asked, y, method=method, max_iterations=2)
    assert np.isfinite(result.log_evidence)
