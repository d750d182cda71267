"""Textbook Gaussian-process regression in plain numpy: slow, dense, independent.

Nothing here imports the package. Everything takes covariance matrices, never kernels:
`Kff` (N, N), `Kuf` (M, N), `Kuu` (M, M), and for test inputs `Kss`, `Ksf`, `Ksu`. `noise` is one
variance or one per row, `mean` the prior mean at the rows, `power` one number or one per row
(constant within a block). `jitter` is absolute and goes on the diagonal of Kuu. Log evidences
are in nats, summed over the data. Item numbers S, E are those of spec/bui.md unless another
document is named.
"""

import dataclasses

import numpy as np

LOG_2PI = np.log(2.0 * np.pi)


def rbf(X, Z, variance=1.0, lengthscale=1.0):
    """Squared exponential covariances, one pair at a time in meaning (S1, eq. 1.6)."""
    difference = (X[:, None, :] - Z[None, :, :]) / lengthscale
    return variance * np.exp(-0.5 * np.sum(difference**2, axis=-1))


def gaussian_log_density(y, mean, cov):
    """log N(y; mean, cov)."""
    residual = y - mean
    _, log_det = np.linalg.slogdet(cov)
    quadratic = residual @ np.linalg.solve(cov, residual)
    return -0.5 * (len(y) * LOG_2PI + log_det + quadratic)


def _rows(value, y):
    return np.broadcast_to(np.asarray(value, float), np.shape(y))


def _jittered(Kuu, jitter):
    return Kuu + jitter * np.eye(len(Kuu))


def nystrom(Kuf, Kuu, jitter=0.0):
    """Qff = Kfu Kuu⁻¹ Kuf."""
    return Kuf.T @ np.linalg.solve(_jittered(Kuu, jitter), Kuf)


def weights(Kuf, Kuu, jitter=0.0):
    """W = Kfu Kuu⁻¹, one row per datum."""
    return np.linalg.solve(_jittered(Kuu, jitter), Kuf).T


# ------------------------------------------------------------------------------ exact GP


def exact_log_evidence(Kff, y, noise, mean=0.0):
    """log N(y; mean, Kff + noise) (S3, eq. 1.12)."""
    return gaussian_log_density(y, _rows(mean, y), Kff + np.diag(_rows(noise, y)))


def exact_posterior(Kff, Ksf, Kss, y, noise, mean=0.0, mean_test=0.0):
    """Mean and covariance of f at the test inputs (S3, eq. 1.10-1.11)."""
    C = Kff + np.diag(_rows(noise, y))
    gain = np.linalg.solve(C, Ksf.T).T
    return mean_test + gain @ (y - mean), Kss - gain @ Ksf.T


# -------------------------------------------- named approximations, each written on its own


def dtc_log_evidence(Kuf, Kuu, y, noise, mean=0.0, jitter=0.0):
    """log N(y; mean, Qff + noise) (S7; vanderwilk item 21)."""
    cov = nystrom(Kuf, Kuu, jitter) + np.diag(_rows(noise, y))
    return gaussian_log_density(y, _rows(mean, y), cov)


def vfe_log_evidence(Kff, Kuf, Kuu, y, noise, mean=0.0, jitter=0.0):
    """Titsias's bound: DTC minus half the trace of D over the noise (S13; vanderwilk item 31)."""
    D = Kff - nystrom(Kuf, Kuu, jitter)
    trace = np.sum(np.diag(D) / _rows(noise, y))
    return dtc_log_evidence(Kuf, Kuu, y, noise, mean, jitter) - 0.5 * trace


def fitc_log_evidence(Kff, Kuf, Kuu, y, noise, mean=0.0, jitter=0.0):
    """log N(y; mean, Qff + diag(Kff - Qff) + noise) (S7; vanderwilk item 23)."""
    Q = nystrom(Kuf, Kuu, jitter)
    cov = Q + np.diag(np.diag(Kff - Q)) + np.diag(_rows(noise, y))
    return gaussian_log_density(y, _rows(mean, y), cov)


def pitc_log_evidence(Kff, Kuf, Kuu, y, noise, blocks, mean=0.0, jitter=0.0):
    """log N(y; mean, Qff + blkdiag(Kff - Qff) + noise) (S7); `blocks` labels the rows."""
    Q = nystrom(Kuf, Kuu, jitter)
    same = np.equal.outer(blocks, blocks)
    cov = Q + np.where(same, Kff - Q, 0.0) + np.diag(_rows(noise, y))
    return gaussian_log_density(y, _rows(mean, y), cov)


def titsias_upper_bound(Kff, Kuf, Kuu, y, noise, mean=0.0, jitter=0.0, bound="trace"):
    """Upper bound on the exact log evidence (vanderwilk item 33, Titsias 2014).

    `bound` says how the largest eigenvalue of Kff - Qff is bounded: "trace", "row_sum" or
    "eigenvalue" (exact).
    """
    Q, R, residual = nystrom(Kuf, Kuu, jitter), np.diag(_rows(noise, y)), y - _rows(mean, y)
    D = Kff - Q
    c = {
        "trace": lambda: np.trace(D),
        "row_sum": lambda: np.max(np.sum(np.abs(D), axis=1)),
        "eigenvalue": lambda: np.linalg.eigvalsh(D)[-1],
    }[bound]()
    _, log_det = np.linalg.slogdet(Q + R)
    quadratic = residual @ np.linalg.solve(Q + R + c * np.eye(len(y)), residual)
    return -0.5 * (len(y) * LOG_2PI + log_det + quadratic)


def svgp_bound(m, V, Kff, Kuf, Kuu, y, noise, mean=0.0, jitter=0.0):
    """The uncollapsed bound at q(u) = N(m, V) (S14; vanderwilk item 29)."""
    K, W, noise = _jittered(Kuu, jitter), weights(Kuf, Kuu, jitter), _rows(noise, y)
    D = np.diag(Kff) - np.sum(W * Kuf.T, axis=1)
    mean_f = _rows(mean, y) + W @ m
    var_f = D + np.sum(W @ V * W, axis=1)
    expected = -0.5 * (LOG_2PI + np.log(noise) + ((y - mean_f) ** 2 + var_f) / noise)
    return np.sum(expected) - gaussian_kl(m, V, K)


def gaussian_kl(m, V, K):
    """KL(N(m, V) || N(0, K))."""
    log_ratio = np.linalg.slogdet(K)[1] - np.linalg.slogdet(V)[1]
    return 0.5 * (np.trace(np.linalg.solve(K, V)) + m @ np.linalg.solve(K, m) - len(m) + log_ratio)


# --------------------------------------------------------------- collapsed Power EP energy


def _each_row_alone(blocks, y):
    return np.arange(len(y)) if blocks is None else np.asarray(blocks)


def power_ep_covariance(Kff, Kuf, Kuu, y, noise, power, blocks=None, jitter=0.0):
    """Qff + blkdiag(power D) + noise, the covariance of y in the Power EP energy (S23, S25)."""
    Q, blocks = nystrom(Kuf, Kuu, jitter), _each_row_alone(blocks, y)
    D = np.where(np.equal.outer(blocks, blocks), Kff - Q, 0.0)
    # one power within a block, so scaling the rows scales the blocks
    return Q + _rows(power, y)[:, None] * D + np.diag(_rows(noise, y))


def power_ep_log_evidence(Kff, Kuf, Kuu, y, noise, power, blocks=None, mean=0.0, jitter=0.0):
    """Collapsed Power EP log evidence: S23, private powers S27, blocks S25 with E1's minus sign.

    The penalty of a block is (1 - a)/(2a) log|I + a R⁻¹D|, whose limit at a = 0 is tr(R⁻¹D)/2.
    """
    noise, power, blocks = _rows(noise, y), _rows(power, y), _each_row_alone(blocks, y)
    cov = power_ep_covariance(Kff, Kuf, Kuu, y, noise, power, blocks, jitter)
    D = Kff - nystrom(Kuf, Kuu, jitter)
    penalty = 0.0
    for label in np.unique(blocks):
        rows = np.flatnonzero(blocks == label)
        a, D_b, R_b = power[rows[0]], D[np.ix_(rows, rows)], noise[rows]
        if a == 0.0:
            penalty += 0.5 * np.sum(np.diag(D_b) / R_b)
            continue
        _, log_det = np.linalg.slogdet(np.eye(len(rows)) + a * D_b / R_b[:, None])
        penalty += (1.0 - a) / (2.0 * a) * log_det
    return gaussian_log_density(y, _rows(mean, y), cov) - penalty


def inducing_posterior(Kff, Kuf, Kuu, y, noise, power, blocks=None, mean=0.0, jitter=0.0):
    """Mean and covariance of u (without its prior mean): Kuf K⁻¹ y, Kuu - Kuf K⁻¹ Kfu (S23)."""
    cov = power_ep_covariance(Kff, Kuf, Kuu, y, noise, power, blocks, jitter)
    gain = np.linalg.solve(cov, Kuf.T).T
    return gain @ (y - _rows(mean, y)), _jittered(Kuu, jitter) - gain @ Kuf.T


def vfe_inducing_posterior(Kuf, Kuu, y, noise, mean=0.0, jitter=0.0):
    """The optimal q(u) of the variational bound in precision form (vanderwilk item 32)."""
    K, noise = _jittered(Kuu, jitter), _rows(noise, y)
    B = K + (Kuf / noise) @ Kuf.T
    shift = Kuf @ ((y - _rows(mean, y)) / noise)
    return K @ np.linalg.solve(B, shift), K @ np.linalg.solve(B, K)


def fitc_inducing_posterior(Kff, Kuf, Kuu, y, noise, mean=0.0, jitter=0.0):
    """The FITC posterior of u in precision form (vanderwilk item 23, eq. 3.11)."""
    D = np.diag(Kff - nystrom(Kuf, Kuu, jitter))
    return vfe_inducing_posterior(Kuf, Kuu, y, _rows(noise, y) + D, mean, jitter)


def predict(m, V, Ksu, Kss, Kuu, mean_test=0.0, jitter=0.0):
    """Mean and covariance of f at test inputs from q(u) (vanderwilk eq. 2.10)."""
    K = _jittered(Kuu, jitter)
    W = np.linalg.solve(K, Ksu.T).T
    return mean_test + W @ m, Kss - W @ (K - V) @ W.T


def power_ep_log_evidence_low_rank(kff, Kuf, Kuu, y, noise, power, mean=0.0, jitter=0.0):
    """`power_ep_log_evidence` for private rows in O(N M²), from the diagonal `kff` (S5, S23)."""
    noise, power, residual = _rows(noise, y), _rows(power, y), y - _rows(mean, y)
    L = np.linalg.cholesky(_jittered(Kuu, jitter))
    A = np.linalg.solve(L, Kuf)
    D = kff - np.sum(A**2, axis=0)
    v = power * D + noise
    B = np.eye(len(Kuu)) + (A / v) @ A.T
    shift = A @ (residual / v)
    log_det = np.sum(np.log(v)) + np.linalg.slogdet(B)[1]
    quadratic = np.sum(residual**2 / v) - shift @ np.linalg.solve(B, shift)
    positive = np.where(power > 0.0, power, 1.0)
    general = (1.0 - power) / positive * np.log1p(power * D / noise)
    penalty = 0.5 * np.sum(np.where(power > 0.0, general, D / noise))
    return -0.5 * (len(y) * LOG_2PI + log_det + quadratic) - penalty


# --------------------------------------------------------------------- iterative Power EP


@dataclasses.dataclass
class Loop:
    """Where a Power EP loop ended.

    `g` and `v` are the site means and variances (scalar loop only); `m`, `V` the moments of
    q(u); `log_scales` log z of each site; `precisions` the site precisions after each sweep.
    """

    m: np.ndarray
    V: np.ndarray
    log_evidence: float
    sweeps: int
    g: np.ndarray | None = None
    v: np.ndarray | None = None
    log_scales: np.ndarray | None = None
    precisions: np.ndarray | None = None


def log_partition(precision, shift):
    """G: log of the integral of exp(shiftᵀu - uᵀ precision u / 2), 2 pi included (S22)."""
    _, log_det = np.linalg.slogdet(precision)
    quadratic = shift @ np.linalg.solve(precision, shift)
    return 0.5 * (len(shift) * LOG_2PI - log_det + quadratic)


def _tilted_log_normaliser(y, R, m, C, a):
    """log of the integral of N(f; m, C) N(y; f, R)^a (S23, E17)."""
    _, log_det = np.linalg.slogdet(R)
    constant = 0.5 * (1.0 - a) * (len(y) * LOG_2PI + log_det) - 0.5 * len(y) * np.log(a)
    return constant + gaussian_log_density(y, m, C + R / a)


def power_ep_energy_at_sites(Kff, Kuf, Kuu, y, noise, power, g, tau, mean=0.0, jitter=0.0):
    """log Z of Power EP from eq. 2.21 (S22) at any scalar sites N(w·u; g, 1/tau)."""
    W, K = weights(Kuf, Kuu, jitter), _jittered(Kuu, jitter)
    noise, power, residual = _rows(noise, y), _rows(power, y), y - _rows(mean, y)
    D = np.diag(Kff) - np.sum(W * Kuf.T, axis=1)
    prior = np.linalg.inv(K)
    P, h = prior + (W.T * tau) @ W, W.T @ (tau * g)
    total = log_partition(P, h) - log_partition(prior, np.zeros(len(K)))
    for n, w in enumerate(W):
        a = power[n]
        P_c, h_c = P - a * tau[n] * np.outer(w, w), h - a * tau[n] * g[n] * w
        V_c = np.linalg.inv(P_c)
        C, m = np.array([[D[n] + w @ V_c @ w]]), np.array([w @ V_c @ h_c])
        R = np.array([[noise[n]]])
        log_z = _tilted_log_normaliser(residual[n : n + 1], R, m, C, a)
        total += (log_z + log_partition(P_c, h_c) - log_partition(P, h)) / a
    return float(total)


def power_ep_loop(
    Kff, Kuf, Kuu, y, noise, power, mean=0.0, jitter=0.0, sweeps=1000, tol=1e-13, order=None
):
    """Power EP one datum at a time from empty sites (turner_slides S5; S21), power above 0.

    Moments are recomputed from the natural parameters at every visit. Stops when no site
    precision moved by more than `tol` relatively in a sweep.
    """
    W, K = weights(Kuf, Kuu, jitter), _jittered(Kuu, jitter)
    noise, power, residual = _rows(noise, y), _rows(power, y), y - _rows(mean, y)
    D = np.diag(Kff) - np.sum(W * Kuf.T, axis=1)
    prior = np.linalg.inv(K)
    tau, nu, history = np.zeros(len(y)), np.zeros(len(y)), []
    for _ in range(sweeps):
        before = tau.copy()
        for n in np.arange(len(y)) if order is None else order:
            w, a = W[n], power[n]
            # cavity q / t^a
            P_c = prior + (W.T * tau) @ W - a * tau[n] * np.outer(w, w)
            V_c = np.linalg.inv(P_c)
            m_c = w @ V_c @ (W.T @ nu - a * nu[n] * w)
            v_u = w @ V_c @ w
            # derivatives of log Z in the cavity mean
            d2 = -1.0 / (D[n] + v_u + noise[n] / a)
            d1 = -d2 * (residual[n] - m_c)
            v_new, g_new = -1.0 / d2 - v_u, m_c - d1 / d2
            tau[n] = (1.0 - a) * tau[n] + 1.0 / v_new
            nu[n] = (1.0 - a) * nu[n] + g_new / v_new
        history.append(tau.copy())
        if np.max(np.abs(tau - before) / tau) < tol:
            break
    V = np.linalg.inv(prior + (W.T * tau) @ W)
    m, g = V @ (W.T @ nu), nu / tau
    arguments = (Kff, Kuf, Kuu, y, noise, power)
    return Loop(
        m=m,
        V=V,
        log_evidence=power_ep_energy_at_sites(*arguments, g, tau, mean, jitter),
        sweeps=len(history),
        g=g,
        v=1.0 / tau,
        log_scales=_log_scales(W, D, prior, residual, noise, power, g, tau),
        precisions=np.array(history),
    )


def _log_scales(W, D, prior, y, noise, power, g, tau):
    """log z of sites z N(w·u; g, 1/tau): z^a matches the zeroth moment of the tilted (S21)."""
    P, h = prior + (W.T * tau) @ W, W.T @ (tau * g)
    scales = np.zeros(len(y))
    for n, w in enumerate(W):
        a, R = power[n], np.array([[noise[n]]])
        P_c, h_c = P - a * tau[n] * np.outer(w, w), h - a * tau[n] * g[n] * w
        V_c = np.linalg.inv(P_c)
        C, m = np.array([[D[n] + w @ V_c @ w]]), np.array([w @ V_c @ h_c])
        log_z = _tilted_log_normaliser(y[n : n + 1], R, m, C, a)
        scale = (log_z + log_partition(P_c, h_c) - log_partition(P, h)) / a
        # constants of N(w·u; g, 1/tau) beside exp(tau g w·u - tau (w·u)² / 2)
        scales[n] = scale - 0.5 * (np.log(tau[n]) - LOG_2PI - tau[n] * g[n] ** 2)
    return scales


def block_power_ep_loop(
    Kff, Kuf, Kuu, y, noise, power, blocks, mean=0.0, jitter=0.0, sweeps=1000, tol=1e-13
):
    """Power EP one block at a time with full M x M sites in natural parameters (S19, S25)."""
    W, K = weights(Kuf, Kuu, jitter), _jittered(Kuu, jitter)
    noise, power, residual = _rows(noise, y), _rows(power, y), y - _rows(mean, y)
    D, prior = Kff - nystrom(Kuf, Kuu, jitter), np.linalg.inv(K)
    groups = [np.flatnonzero(np.asarray(blocks) == label) for label in np.unique(blocks)]
    T2, T1 = np.zeros((len(groups), *K.shape)), np.zeros((len(groups), len(K)))
    log_z = np.zeros(len(groups))
    done = 0
    for _ in range(sweeps):
        done, moved = done + 1, 0.0
        for b, rows in enumerate(groups):
            a, W_b, R = power[rows[0]], W[rows], np.diag(noise[rows])
            P_c = prior + T2.sum(axis=0) - a * T2[b]
            V_c = np.linalg.inv(P_c)
            h_c = T1.sum(axis=0) - a * T1[b]
            C, m_f = D[np.ix_(rows, rows)] + W_b @ V_c @ W_b.T, W_b @ V_c @ h_c
            log_z[b] = _tilted_log_normaliser(residual[rows], R, m_f, C, a)
            gain = V_c @ W_b.T @ np.linalg.inv(C + R / a)
            m = V_c @ h_c + gain @ (residual[rows] - m_f)
            P = np.linalg.inv(V_c - gain @ W_b @ V_c)
            new2, new1 = (1 - a) * T2[b] + P - P_c, (1 - a) * T1[b] + P @ m - h_c
            moved = max(moved, np.max(np.abs(new2 - T2[b])) / np.max(np.abs(new2)))
            T2[b], T1[b] = new2, new1
        if moved < tol:
            break
    P, h = prior + T2.sum(axis=0), T1.sum(axis=0)
    total = log_partition(P, h) - log_partition(prior, np.zeros(len(K)))
    for b, rows in enumerate(groups):
        a = power[rows[0]]
        cavity = log_partition(P - a * T2[b], h - a * T1[b])
        total += (log_z[b] + cavity - log_partition(P, h)) / a
    V = np.linalg.inv(P)
    return Loop(m=V @ h, V=V, log_evidence=float(total), sweeps=done)
