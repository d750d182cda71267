"""Systems and baselines of the benchmarks on time series, against other ways to compute them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.state_space import linear, systems
from scipy import integrate, stats

from tests.tolerances import assert_close


def test_the_kink_is_where_it_is_said_to_be():
    assert_close(systems.kink(np.array([-1.0, 3.5, 4.0, 5.0])), [0.0, 4.5, 5.0, 1.0])
    series = systems.kink_series(3, observation_variance=0.5)
    assert len(series.y) == 200
    assert len(series.y_after) == 20
    x = np.concatenate([series.x, series.x_after])
    away = x[1:] - systems.kink(x[:-1])
    assert np.var(away) == pytest.approx(0.2, rel=0.3)
    noise = np.concatenate([series.y, series.y_after]) - x
    assert np.var(noise) == pytest.approx(0.5, rel=0.3)


def test_the_neuron_follows_its_equations():
    """Against a solver with its own steps, up to the first pulses."""
    states, injected = systems.neuron(120)
    assert injected[70] == 2.0
    assert injected[50] == 0.0

    def slope(time, state):
        return systems._slope(state, systems.current(np.asarray(time)))

    solution = integrate.solve_ivp(
        slope, (0.0, 59.5), systems.START, "LSODA", 0.5 * np.arange(120), max_step=0.05, rtol=1e-9
    )
    assert np.abs(solution.y.T - states).max() < 0.05 * np.ptp(states[:, 0])
    # a closed form: a gate without flow of current relaxes at its two rates
    assert systems._rate(0.0) == pytest.approx(1.0)
    assert systems._rate(1e-4) == pytest.approx(1e-5 / (1.0 - np.exp(-1e-5)))


def test_the_linear_baseline_has_the_likelihood_of_its_joint_gaussian():
    random = np.random.default_rng(0)
    u, y = random.standard_normal((6, 1)), random.standard_normal(6)
    model = linear.Linear(
        A=jnp.array([[0.8, 0.2], [-0.1, 0.5]]),
        B=jnp.array([[0.3], [-0.4]]),
        C=jnp.array([1.0, 0.5]),
        d=jnp.array([0.2]),
        offset=jnp.asarray(0.1),
        L=jnp.array([[-0.5, 0.0], [0.2, -1.0]]),
        log_noise=jnp.asarray(-1.0),
        start=jnp.array([0.4, -0.2]),
    )
    A, B, C = map(np.asarray, model[:3])
    root = np.array([[np.exp(-0.5), 0.0], [0.2, np.exp(-1.0)]])
    mean, maps, rows = np.array([0.4, -0.2]), [np.eye(2)], []
    centre = []
    for t in range(6):
        mean = A @ mean + B @ u[t]
        maps = [A @ m for m in maps] + [root]
        rows.append([C @ m for m in maps])
        centre.append(C @ mean + 0.2 * u[t, 0] + 0.1)
    load = np.zeros((6, 14))
    for t, row in enumerate(rows):
        load[t, : 2 * len(row)] = np.concatenate(row)
    cov = load @ load.T + np.exp(-1.0) * np.eye(6)
    value, last = linear.filtered(model, jnp.asarray(u), jnp.asarray(y))
    assert_close(value, stats.multivariate_normal.logpdf(y, centre, cov), "factorised")
    # what follows the first four, without looking at it
    _, last = linear.filtered(model, jnp.asarray(u[:4]), jnp.asarray(y[:4]))
    mean, var = jax.tree.map(np.asarray, linear.simulate(model, last, jnp.asarray(u[4:])))
    gain = np.linalg.solve(cov[:4, :4], cov[:4, 4:]).T
    expected = np.array(centre)[4:] + gain @ (y - centre)[:4]
    assert_close(mean, expected, "factorised")
    assert_close(var, np.diag(cov[4:, 4:] - gain @ cov[:4, 4:]), "factorised")
