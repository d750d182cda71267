"""Learning state-space models: states from the past, and forecasts that do not run away."""

import numpy as np

import cavity
from cavity.learning.initialisation.state_space import (
    filled_in_time,
    linear_start,
    ridge,
    subspace_states,
)
from cavity.learning.state_space import fit_state_space


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


def test_missing_outputs_are_filled_within_their_series():
    Y = np.array([[1.0], [np.nan], [3.0], [np.nan], [np.nan], [5.0]])
    filled = filled_in_time(Y, np.array([0, 0, 0, 0, 1, 1]))
    np.testing.assert_allclose(filled[:, 0], [1.0, 2.0, 3.0, 3.0, 5.0, 5.0])


def test_a_series_that_grows_has_forecasts_that_do_not_explode():
    t = np.arange(40)
    y = (1.04**t)[:, None]
    y = (y - y.mean()) / y.std() + 0.01 * np.random.default_rng(0).normal(size=(40, 1))
    result = fit_state_space(y, states=1, points=5, emission="identity", max_iterations=5)
    weights = np.asarray(result.model.transition.mean.weights)
    assert abs(weights[0, 0]) <= 0.995
    far = result.posterior.forecast(400, propagation="linearised").mean
    assert np.max(np.abs(far)) < 20.0


def test_several_series_share_their_dynamics():
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.normal(size=(30, 1)), axis=0) * 0.2
    labels = np.repeat(["a", "b", "c"], 10)
    result = fit_state_space(
        y, states=1, series=labels, points=5, emission="identity", max_iterations=3
    )
    future = result.posterior.forecast(4, propagation="moments")
    assert future.mean.shape == (3, 4, 1)
    assert np.all(result.posterior.states.cross[[0, 10, 20]] == 0.0)
    assert isinstance(result.model, cavity.GPSSM)
