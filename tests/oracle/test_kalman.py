"""The Kalman oracle agrees with one dense Gaussian over all states and outputs."""

import numpy as np
import pytest

from tests.oracle import dense, kalman
from tests.tolerances import assert_close


def random_model(rng, size, outputs, controls):
    return kalman.LinearModel(
        A=0.6 * rng.normal(size=(size, size)),
        Q=rng.uniform(0.05, 0.5, size),
        C=rng.normal(size=(outputs, size)),
        R=rng.uniform(0.1, 0.4, outputs),
        m0=rng.normal(size=size),
        v0=rng.uniform(0.5, 2.0, size),
        b=rng.normal(size=size),
        d=rng.normal(size=outputs),
        B=rng.normal(size=(size, controls)),
        D=rng.normal(size=(outputs, controls)),
    )


@pytest.mark.parametrize(("size", "outputs"), [(1, 1), (2, 3), (3, 2)])
def test_states_and_evidence_of_a_dense_gaussian(size, outputs):
    rng = np.random.default_rng(size)
    link = np.array([0, 1, 1, 1, 0, 0, 1, 1])
    model, T = random_model(rng, size, outputs, 2), len(link)
    controls, y = rng.normal(size=(T, 2)), rng.normal(size=(T, outputs))
    y[2], y[6, 0], y[0, -1] = np.nan, np.nan, np.nan
    result = kalman.smooth(model, y, link, controls)

    mean, cov = kalman.dense_joint(model, link, controls)
    observe = np.kron(np.eye(T), model.C)
    present = ~np.isnan(y.ravel())
    H, r = observe[present], np.tile(model.R, T)[present]
    residual = y.ravel() - observe @ mean - model.emission_offsets(T, controls).ravel()
    S = H @ cov @ H.T + np.diag(r)
    gain = np.linalg.solve(S, H @ cov).T
    mean = (mean + gain @ residual[present]).reshape(T, size)
    cov = (cov - gain @ H @ cov).reshape(T, size, T, size)
    evidence = dense.gaussian_log_density(residual[present], np.zeros(len(r)), S)

    assert_close(result.log_evidence, evidence, "factorised")
    assert_close(result.mean, mean, "factorised")
    for t in range(T):
        assert_close(result.cov[t], cov[t, :, t], "factorised")
        pair = cov[t - 1, :, t] if link[t] else np.zeros((size, size))
        assert_close(result.cross[t], pair, "factorised", scale=1.0)


def test_one_state_by_hand():
    """One row: y ~ N(m0 + d, v0 + R)."""
    one = np.ones(1)
    model = kalman.LinearModel(np.eye(1), one, np.eye(1), 0.5 * one, 0.2 * one, 2.0 * one)
    result = kalman.smooth(model, np.array([[1.2]]), np.zeros(1))
    assert_close(result.log_evidence, -0.5 * (np.log(2 * np.pi * 2.5) + 1.0 / 2.5))
    assert_close(result.mean, [[0.2 + 2.0 / 2.5]])
    assert_close(result.cov, [[[2.0 - 4.0 / 2.5]]])
