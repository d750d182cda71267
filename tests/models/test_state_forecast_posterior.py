"""Forecasts from the posterior of a state-space model: of which states, controls and shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.variables.chain import ChainBelief
from cavity.models.state_space.posterior import StateSpacePosterior
from tests.models.test_state_forecasts import WEIGHTS, linear_process, start
from tests.tolerances import assert_close

OFFSET = np.array([0.0, 0.1, 0.2])


def posterior_of(labels, columns=3, controls=1):
    """A posterior of a linear system with random states, and padding of one row."""
    random = np.random.default_rng(0)
    count = len(labels) + 1
    root = 0.3 * random.standard_normal((count, 2, 2))
    mean, cov = random.standard_normal((count, 2)), root @ np.swapaxes(root, 1, 2)
    # the last states are those of the other file, whose compiled programs are used again
    for belief, row in zip(zip(*start(2), strict=True), lasts(labels), strict=False):
        mean[row], cov[row] = belief
    chain = ChainBelief(*map(jnp.asarray, (mean, cov, 0.0 * cov)), jnp.zeros(()))
    points = inducing.Points(np.eye(2 + controls))
    transition = cavity.Layer(
        kernels.RBF(), points, 2, noise_variance=0.1, skip_connection=controls > 0
    )
    return StateSpacePosterior(
        model=cavity.GPSSM(transition, likelihoods.Gaussian(0.1)),
        transition=linear_process(),
        emission=means.Linear(WEIGHTS[:, :columns], OFFSET[:columns]),
        chain=chain,
        series=jnp.asarray(np.append(labels, -1.0)),
        n_inputs=controls,
        outputs=columns,
        single=columns == 1,
    )


def lasts(labels):
    labels = np.asarray(labels)
    return [int(np.flatnonzero(labels == label)[-1]) for label in np.unique(labels)]


LABELS = np.repeat([0.0, 1.0], (5, 3))


def test_forecasts_go_on_from_the_last_state_of_each_series():
    posterior = posterior_of(LABELS)
    assert lasts(LABELS) == [4, 7]
    X = np.random.default_rng(1).standard_normal((2, 7, 1))
    future = posterior.forecast(6, X, propagation="linearised")
    assert future.mean.shape == future.var.shape == (2, 6, 3)
    A, b = np.array([[0.9, 0.25], [-0.3, 0.8]]), np.array([0.1, -0.2])
    for s, row in enumerate(lasts(LABELS)):
        state = np.asarray(posterior.chain.mean)[row]
        for k in range(6):
            state = A @ state + X[s, k] * np.array([0.5, -0.2]) + b
            assert_close(future.mean[s, k], state @ WEIGHTS + OFFSET)
    # steps are the rows of X by default, and rows beyond the steps are not used
    again = posterior.forecast(None, X[:, :6], propagation="linearised")
    assert_close(again.mean, future.mean)


@pytest.mark.slow
def test_one_series_of_one_output_has_vectors():
    posterior = posterior_of(LABELS[:5], columns=1)
    X = np.random.default_rng(1).standard_normal((6, 1))
    for propagation in ("linearised", "paths"):
        future = posterior.forecast(6, X, propagation=propagation, paths=64)
        assert future.mean.shape == future.var.shape == (6,)
        assert future.quantile([0.1, 0.9]).shape == (2, 6)
        assert future.log_density(np.zeros(6)).shape == (6,)
        assert future.joint_log_density(np.zeros(6)).shape == (6,)
    assert_close(posterior.forecast(6, X, paths=64).mean, future.mean)
    other = posterior.forecast(6, X[:, 0], paths=64, key=jax.random.key(1))
    assert np.abs(other.mean - future.mean).max() > 1e-3


def test_files_hold_posteriors(tmp_path):
    posterior, X = posterior_of(LABELS), np.ones((2, 6, 1))
    cavity.fitting.save_module(tmp_path / "states.cavity", posterior, {})
    again, _ = cavity.fitting.load_module(tmp_path / "states.cavity")
    expected = posterior.forecast(6, X, propagation="linearised")
    assert_close(again.forecast(6, X, propagation="linearised").mean, expected.mean)
    assert_close(again.states.mean, posterior.states.mean)


def test_controls_that_do_not_fit_are_named():
    posterior = posterior_of(LABELS)
    with pytest.raises(ValueError, match="takes 1 control, so a forecast needs them"):
        posterior.forecast(3)
    with pytest.raises(ValueError, match="end before the forecast does: X has 3 rows for 5 steps"):
        posterior.forecast(5, np.zeros((2, 3, 1)))
    with pytest.raises(ValueError, match=r"X must have shape \(2, steps, 1\), given \(3, 1\)"):
        posterior.forecast(3, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="NaN"):
        posterior.forecast(3, np.full((2, 3, 1), np.nan))
    with pytest.raises(ValueError, match="at least one step"):
        posterior.forecast(0, np.zeros((2, 3, 1)))
    alone = posterior_of(LABELS, controls=0)
    with pytest.raises(ValueError, match="takes no controls"):
        alone.forecast(4, np.zeros((4, 1)))
    with pytest.raises(ValueError, match="give steps"):
        alone.forecast()
