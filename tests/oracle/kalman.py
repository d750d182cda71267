"""The Kalman filter and the Rauch-Tung-Striebel smoother in plain numpy, one step at a time.

Nothing here imports the package. Rows are the time points of all series, one series after
another:

    first state of a series  x ~ N(m0, diag v0)
    states                   x_t = A x_{t-1} + B c_t + b + N(0, diag Q)
    outputs                  y_t = C x_t + D c_t + d + N(0, diag R)

`link` (T,) is 1 where row t continues the series of row t - 1, and 0 where it starts one. An
output that is NaN is missing; a row may miss all of them. Controls c_t enter the transition into
row t, never that of a first state. Log evidences are in nats.
"""

import dataclasses

import numpy as np

LOG_2PI = np.log(2.0 * np.pi)


@dataclasses.dataclass(frozen=True)
class LinearModel:
    """A linear state-space model; vectors Q, R, v0 are variances."""

    A: np.ndarray
    Q: np.ndarray
    C: np.ndarray
    R: np.ndarray
    m0: np.ndarray
    v0: np.ndarray
    b: np.ndarray | None = None
    d: np.ndarray | None = None
    B: np.ndarray | None = None
    D: np.ndarray | None = None

    def transition_offsets(self, T, controls=None):
        """b + B c_t, one row per time point."""
        b = np.zeros(len(self.m0)) if self.b is None else self.b
        driven = 0.0 if self.B is None else controls @ self.B.T
        return np.broadcast_to(b + driven, (T, len(self.m0)))

    def emission_offsets(self, T, controls=None):
        """d + D c_t, one row per time point."""
        d = np.zeros(len(self.R)) if self.d is None else self.d
        driven = 0.0 if self.D is None else controls @ self.D.T
        return np.broadcast_to(d + driven, (T, len(self.R)))


@dataclasses.dataclass(frozen=True)
class Smoothed:
    """Posterior moments of the states, and of the filter on its way.

    `cross[t]` is Cov(x_{t-1}, x_t), rows for x_{t-1}; zero where row t starts a series.
    `predicted_*` are given the outputs before row t, `filtered_*` those up to row t.
    """

    log_evidence: float
    mean: np.ndarray
    cov: np.ndarray
    cross: np.ndarray
    filtered_mean: np.ndarray
    filtered_cov: np.ndarray
    predicted_mean: np.ndarray
    predicted_cov: np.ndarray


def smooth(model, y, link, controls=None):
    """Evidence and smoothed states of all series.

    Args:
        model: a `LinearModel`.
        y: outputs (T, E), NaN where missing.
        link: (T,), 0 where a series starts.
        controls: known inputs (T, C), where the model has B or D.
    """
    y, T, size = np.asarray(y, float), len(y), len(model.m0)
    into, emitted = model.transition_offsets(T, controls), model.emission_offsets(T, controls)
    before = np.zeros((T, size)), np.zeros((T, size, size))
    after = np.zeros((T, size)), np.zeros((T, size, size))
    log_evidence = 0.0
    for t in range(T):
        if link[t]:
            before[0][t] = model.A @ after[0][t - 1] + into[t]
            before[1][t] = model.A @ after[1][t - 1] @ model.A.T + np.diag(model.Q)
        else:
            before[0][t], before[1][t] = model.m0, np.diag(model.v0)
        after[0][t], after[1][t], log_density = _observe(
            model, before[0][t], before[1][t], y[t] - emitted[t]
        )
        log_evidence += log_density
    mean, cov, cross = after[0].copy(), after[1].copy(), np.zeros((T, size, size))
    for t in range(T - 2, -1, -1):
        if not link[t + 1]:
            continue
        # Cov(x_t, x_{t+1}) / Cov(x_{t+1}) given the outputs up to t
        gain = np.linalg.solve(before[1][t + 1], model.A @ after[1][t]).T
        mean[t] = after[0][t] + gain @ (mean[t + 1] - before[0][t + 1])
        cov[t] = after[1][t] + gain @ (cov[t + 1] - before[1][t + 1]) @ gain.T
        cross[t + 1] = gain @ cov[t + 1]
    return Smoothed(log_evidence, mean, cov, cross, *after, *before)


def _observe(model, mean, cov, y):
    """One state given one row of outputs, and their log density."""
    present = ~np.isnan(y)
    if not np.any(present):
        return mean, cov, 0.0
    C, R = model.C[present], np.diag(model.R[present])
    residual = y[present] - C @ mean
    S = C @ cov @ C.T + R
    gain = np.linalg.solve(S, C @ cov).T
    # (I - GC) P (I - GC)ᵀ + G R Gᵀ stays positive definite
    left = np.eye(len(mean)) - gain @ C
    cov = left @ cov @ left.T + gain @ R @ gain.T
    log_det = np.linalg.slogdet(S)[1]
    quadratic = residual @ np.linalg.solve(S, residual)
    log_density = -0.5 * (len(residual) * LOG_2PI + log_det + quadratic)
    return mean + gain @ residual, cov, log_density


def dense_joint(model, link, controls=None):
    """Prior mean (T D,) and covariance (T D, T D) of all states, time by time."""
    T, size = len(link), len(model.m0)
    into = model.transition_offsets(T, controls)
    mean, spread = np.zeros((T, size)), np.zeros((T * size, T * size))
    # x = spread · noise, with one block of independent noise per row
    for t in range(T):
        now, last = slice(t * size, (t + 1) * size), slice((t - 1) * size, t * size)
        if link[t]:
            mean[t] = model.A @ mean[t - 1] + into[t]
            spread[now] = model.A @ spread[last]
            spread[now, now] = np.diag(np.sqrt(model.Q))
        else:
            mean[t] = model.m0
            spread[now, now] = np.diag(np.sqrt(model.v0))
    return mean.ravel(), spread @ spread.T
