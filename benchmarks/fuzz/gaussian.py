"""The dense algebra of Gaussian noise, in extended precision: evidence and posterior.

The collapsed energy of Power EP, Bui (2017), S23, S25 and S27, by covariances of the outputs.
"""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.fuzz.covariances import PI, WIDE, covariance, mean_at, wide

LOG_2PI = np.log(2 * PI)


class Laid(NamedTuple):
    """A problem with Gaussian noise.

    Attributes:
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where they are missing.
        power: of each row, (N,).
        blocks: a label of each row.
        known: noise variances of rows; None for the likelihood's.
        jitter: the share of the mean variance on the diagonal.
    """

    X: np.ndarray
    y: np.ndarray
    power: np.ndarray
    blocks: np.ndarray
    known: np.ndarray | None
    jitter: float


def cholesky(K: np.ndarray) -> np.ndarray:
    """The lower Cholesky factor; NaN where K is not positive definite."""
    L = np.zeros_like(K)
    for j in range(len(K)):
        pivot = K[j, j] - L[j, :j] @ L[j, :j]
        L[j, j] = np.sqrt(pivot) if pivot > 0 else WIDE("nan")
        L[j + 1 :, j] = (K[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    return L


def forward(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """L⁻¹ B of a lower triangular matrix."""
    out = np.zeros_like(B)
    for j in range(len(L)):
        out[j] = (B[j] - L[j, :j] @ out[:j]) / L[j, j]
    return out


def _prior(model: Any, laid: Laid, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q between X and the data, Q and K of the data (full GPs: K throughout)."""
    K = covariance(model.kernel, laid.X, laid.X)
    if model.inducing is None:
        share = laid.jitter * np.mean(np.diag(K)) * np.eye(len(K), dtype=WIDE)
        return covariance(model.kernel, X, laid.X), K + share, K + share
    Z = wide(model.inducing.Z)
    Kuu = covariance(model.kernel, Z, Z)
    L = cholesky(Kuu + laid.jitter * np.mean(np.diag(Kuu)) * np.eye(len(Kuu), dtype=WIDE))
    A = forward(L, covariance(model.kernel, Z, laid.X))
    return forward(L, covariance(model.kernel, Z, X)).T @ A, A.T @ A, K


def _noise(model: Any, laid: Laid) -> np.ndarray:
    variance = model.likelihood.variance if laid.known is None else laid.known
    return np.broadcast_to(wide(variance), len(laid.X))


def _covariance_of_outputs(Q: np.ndarray, K: np.ndarray, laid: Laid) -> np.ndarray:
    same = laid.blocks[:, None] == laid.blocks[None]
    return Q + np.where(same, laid.power[:, None] * (K - Q), WIDE(0))


def log_evidence(model: Any, laid: Laid) -> np.floating:
    """The log evidence in nats."""
    _, Q, K = _prior(model, laid, laid.X[:1])
    noise, mean = _noise(model, laid), mean_at(model.mean, laid.X)
    C = _covariance_of_outputs(Q, K, laid)
    total = WIDE(0)
    for y in laid.y.T:
        rows = np.flatnonzero(~np.isnan(y))
        at = np.ix_(rows, rows)
        L = cholesky(C[at] + np.diag(noise[rows]))
        half = forward(L, wide(y[rows] - mean[rows]))
        total -= np.sum(np.log(np.diag(L))) + half @ half / 2 + len(rows) * LOG_2PI / 2
        if model.inducing is not None:
            total -= sum(
                _penalty(block, float(laid.power[block[0]]), noise[block], K - Q)
                for label in np.unique(laid.blocks[rows])
                if len(block := rows[laid.blocks[rows] == label])
            )
    return total


def _penalty(rows: np.ndarray, power: float, noise: np.ndarray, D: np.ndarray) -> np.floating:
    r"""$(1 - a)/2a \log |I + a R^{-1} D|$ of a block; at a = 0 half the trace of $R^{-1} D$."""
    if power == 1.0:
        return WIDE(0)
    root = np.sqrt(noise)
    S = D[np.ix_(rows, rows)] / root[:, None] / root[None]
    if power == 0.0:
        return np.trace(S) / 2
    a = WIDE(power)
    L = cholesky(np.eye(len(S), dtype=WIDE) + a * S)
    return (1 - a) / a * np.sum(np.log(np.diag(L)))


def posterior(model: Any, laid: Laid, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at X for each output, (n, P)."""
    cross, Q, K = _prior(model, laid, X)
    noise, mean = _noise(model, laid), mean_at(model.mean, laid.X)
    C = _covariance_of_outputs(Q, K, laid)
    prior = np.diag(covariance(model.kernel, X, X))
    means, variances = [], []
    for y in laid.y.T:
        rows = np.flatnonzero(~np.isnan(y))
        L = cholesky(C[np.ix_(rows, rows)] + np.diag(noise[rows]))
        half = forward(L, cross[:, rows].T)
        means.append(mean_at(model.mean, X) + half.T @ forward(L, wide(y[rows] - mean[rows])))
        variances.append(prior - np.sum(half**2, axis=0))
    return np.column_stack(means), np.column_stack(variances)
