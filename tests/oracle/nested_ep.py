"""Multinomial probit by nested EP, and by one flat Power EP, in plain numpy: dense and slow.

Nothing here imports the package. `K` are prior covariances of the functions, (C, N, N); labels y
are whole numbers, (N,). Item numbers are those of the inventory of Jylanki (2013).
"""

import dataclasses

import numpy as np
from scipy.linalg import block_diag
from scipy.special import log_ndtr

# A trapezoidal rule of the standard normal: errors below rounding for what is smooth.
GRID = np.linspace(-11.0, 11.0, 801)
LOG_WEIGHT = -0.5 * GRID**2 - 0.5 * np.log(2.0 * np.pi) + np.log(GRID[1] - GRID[0])
SETTLED = 1e-12


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where the iteration ended: moments (C, N) and (C, N, C, N), scalar sites (N, C - 1).

    `outer` is the number of outer iterations, where they were counted.
    """

    log_evidence: float
    mean: np.ndarray
    cov: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    outer: int = 0

    def rows(self):
        """Covariances between the classes of each row, (N, C, C)."""
        return np.einsum("kili->ikl", self.cov)


def others(y, classes):
    """The classes that a row does not have, (N, C - 1)."""
    return np.array([[j for j in range(classes) if j != label] for label in y], int)


def log_chance(f, y):
    """(3.5): log p(y | f), f (S, N, C), by the trapezoidal rule in u."""
    rest = others(y, f.shape[-1])
    own = np.take_along_axis(f, np.asarray(y, int)[None, :, None], axis=2)
    gap = own - np.stack([f[:, np.arange(len(y)), j] for j in rest.T], axis=2)
    total = np.full(gap.shape[:2], -np.inf)
    for u, log_weight in zip(GRID[::10], LOG_WEIGHT[::10] + np.log(10.0), strict=True):
        total = np.logaddexp(total, log_weight + log_ndtr(gap + u).sum(axis=2))
    return total


def _potential(m, V):
    """psi of S29, up to a constant: half the log determinant and half the quadratic form."""
    quadratic = np.einsum("...i,...i", m, np.linalg.solve(V, m[..., None])[..., 0])
    return 0.5 * (np.linalg.slogdet(V)[1] + quadratic)


# ------------------------------------------------------------------------------- nested EP


def _moments(m, v):
    """S74: log mass of the probit under N(m, v), and the tilted mean and variance."""
    scale = np.sqrt(1.0 + v)
    zeta = m / scale
    log_mass = log_ndtr(zeta)
    rho = np.exp(-0.5 * zeta**2 - 0.5 * np.log(2.0 * np.pi) - log_mass) / scale
    return log_mass, m + v * rho, v - v**2 * (rho**2 + zeta * rho / scale)


def _directions(y, classes):
    """The vectors b of S73, (N, C - 1, C + 1): f of the class seen, less another one, plus u."""
    b = np.zeros((len(y), classes - 1, classes + 1))
    for i, rest in enumerate(others(y, classes)):
        for j, other in enumerate(rest):
            b[i, j, int(y[i])], b[i, j, other], b[i, j, -1] = 1.0, -1.0, 1.0
    return b


def _inner_posterior(mu, Sigma, b, alpha, beta):
    """S79: moments of w where the scalar sites are these."""
    precision = np.linalg.inv(Sigma) + np.einsum("nji,nj,njk->nik", b, alpha, b)
    V = np.linalg.inv(precision)
    shift = np.linalg.solve(Sigma, mu[..., None])[..., 0] + np.einsum("nji,nj->ni", b, beta)
    return np.einsum("nij,nj->ni", V, shift), V


def _inner_sweep(mu, Sigma, b, alpha, beta):
    """S74: every scalar site once, with rank-one refreshes."""
    alpha, beta = alpha.copy(), beta.copy()
    m_w, V_w = _inner_posterior(mu, Sigma, b, alpha, beta)
    for j in range(b.shape[1]):
        Vb = np.einsum("nik,nk->ni", V_w, b[:, j])
        v, m = np.einsum("ni,ni->n", b[:, j], Vb), np.einsum("ni,ni->n", b[:, j], m_w)
        v_c = 1.0 / (1.0 / v - alpha[:, j])
        m_c = v_c * (m / v - beta[:, j])
        _, m_hat, v_hat = _moments(m_c, v_c)
        new_alpha, new_beta = 1.0 / v_hat - 1.0 / v_c, m_hat / v_hat - m_c / v_c
        gain, push = new_alpha - alpha[:, j], new_beta - beta[:, j]
        m_w = m_w + Vb * ((push - gain * m) / (1.0 + gain * v))[:, None]
        share = (gain / (1.0 + gain * v))[:, None, None]
        V_w = V_w - share * Vb[:, :, None] * Vb[:, None, :]
        alpha[:, j], beta[:, j] = new_alpha, new_beta
    return alpha, beta


def _augmented(m, V):
    """Cavities of the functions joined by u, N(0, 1) (S73)."""
    count, classes = m.shape
    mu, Sigma = np.zeros((count, classes + 1)), np.zeros((count, classes + 1, classes + 1))
    mu[:, :-1], Sigma[:, :-1, :-1], Sigma[:, -1, -1] = m, V, 1.0
    return mu, Sigma


def inner_log_mass(m, V, y, sweeps=400):
    """Inner EP to convergence (S74) and its normaliser (S75), for cavities (N, C), (N, C, C)."""
    b = _directions(y, m.shape[1])
    mu, Sigma = _augmented(m, V)
    alpha = beta = np.zeros(b.shape[:2])
    for _ in range(sweeps):
        before = alpha, beta
        alpha, beta = _inner_sweep(mu, Sigma, b, alpha, beta)
        if max(np.abs(alpha - before[0]).max(), np.abs(beta - before[1]).max()) < SETTLED:
            break
    m_w, V_w = _inner_posterior(mu, Sigma, b, alpha, beta)
    total = _potential(m_w, V_w) - _potential(mu, Sigma)
    v = np.einsum("nji,nik,njk->nj", b, V_w, b)
    z = np.einsum("nji,ni->nj", b, m_w)
    v_c = 1.0 / (1.0 / v - alpha)
    m_c = v_c * (z / v - beta)
    moved = 0.5 * (m_c**2 / v_c + np.log(v_c)) - 0.5 * (z**2 / v + np.log(v))
    return total + np.sum(_moments(m_c, v_c)[0] + moved, axis=1), alpha, beta


def site_blocks(alpha, beta, y, classes):
    """S76: T (N, C, C) and nu (N, C) from the scalar sites of every row."""
    count = len(y)
    pi, pushed = np.zeros((count, classes)), np.zeros((count, classes))
    for i, rest in enumerate(others(y, classes)):
        pi[i, int(y[i])] = 1.0
        pi[i, rest], pushed[i, rest] = alpha[i], beta[i]
    s = pi.sum(axis=1)
    T = pi[:, :, None] * np.eye(classes) - pi[:, :, None] * pi[:, None, :] / s[:, None, None]
    return T, (pushed.sum(axis=1) / s)[:, None] * pi - pushed


def _outer_posterior(prior, T, nu):
    """The dense posterior of all functions, nC x nC, and the log determinant of I + K T."""
    count, classes = nu.shape
    dense = np.zeros((classes, count, classes, count))
    index = np.arange(count)
    dense[:, index, :, index] = T
    dense = dense.reshape(classes * count, -1)
    B = np.eye(len(prior)) + prior @ dense
    cov = np.linalg.solve(B, prior)
    return cov @ nu.T.ravel(), 0.5 * (cov + cov.T), np.linalg.slogdet(B)[1]


def nested_ep(K, y, *, incremental=False, damping=0.7, sweeps=400):
    """S78: outer parallel EP on the functions of each row; S79 where `incremental`."""
    classes, count = len(K), len(y)
    prior, b = block_diag(*K), _directions(y, classes)
    alpha = beta = np.zeros((count, classes - 1))
    shape = (classes, count, classes, count)
    outer = 0
    while outer < sweeps:
        outer += 1
        T, nu = site_blocks(alpha, beta, y, classes)
        mean, cov, volume = _outer_posterior(prior, T, nu)
        m = mean.reshape(classes, count).T
        V = np.einsum("kili->ikl", cov.reshape(shape))
        V_c = np.linalg.inv(np.linalg.inv(V) - T)
        shift = np.linalg.solve(V, m[..., None])[..., 0] - nu
        m_c = np.einsum("nkl,nl->nk", V_c, shift)
        if incremental:
            new = _inner_sweep(*_augmented(m_c, V_c), b, alpha, beta)
        else:
            new = inner_log_mass(m_c, V_c, y)[1:]
        gap = max(np.abs(new[0] - alpha).max(), np.abs(new[1] - beta).max())
        if gap < SETTLED:
            break
        alpha, beta = alpha + damping * (new[0] - alpha), beta + damping * (new[1] - beta)
    else:
        raise RuntimeError("nested EP did not converge")
    scales = inner_log_mass(m_c, V_c, y)[0] + _potential(m_c, V_c) - _potential(m, V)
    value = -0.5 * volume + 0.5 * mean @ nu.T.ravel() + scales.sum()
    return Solution(value, m.T, cov.reshape(shape), alpha, beta, outer)


def left_out_log_chance(solution, y):
    """S24, S81: log probability of each row's label under its cavity, over that of any label."""
    classes, V = len(solution.mean), solution.rows()
    T, nu = site_blocks(solution.alpha, solution.beta, y, classes)
    V_c = np.linalg.inv(np.linalg.inv(V) - T)
    shift = np.linalg.solve(V, solution.mean.T[..., None])[..., 0] - nu
    m_c = np.einsum("nkl,nl->nk", V_c, shift)
    each = [inner_log_mass(m_c, V_c, np.full(len(y), j))[0] for j in range(classes)]
    return np.take_along_axis(np.array(each), np.asarray(y)[None], 0)[0] - np.logaddexp.reduce(
        each
    )


# -------------------------------------------------------------------- flat Power EP with u


def contrast_matrix(y, classes):
    """Rows f^j - f^y + u, one for each row and each other class, of all functions and all u."""
    rest, index = others(y, classes), np.arange(len(y))
    B = np.zeros((len(y), classes - 1, classes + 1, len(y)))
    for j in range(classes - 1):
        B[index, j, rest[:, j], index] = 1.0
        B[index, j, np.asarray(y, int), index] = -1.0
        B[index, j, classes, index] = 1.0
    return B.reshape(-1, (classes + 1) * len(y))


def _power_moments(m, v, power):
    """log M of the probit of -z under N(m, v), with its first two derivatives in m."""
    deviation = np.sqrt(v)
    value = log_ndtr(-(m[:, None] + deviation[:, None] * GRID))
    if power == 0.0:
        weight = np.exp(LOG_WEIGHT)
        slope = (value * GRID) @ weight / deviation
        return value @ weight, slope, (value * (GRID**2 - 1.0)) @ weight / v
    logs = power * value + LOG_WEIGHT
    log_mass = np.logaddexp.reduce(logs, axis=1)
    share = np.exp(logs - log_mass[:, None])
    first, second = share @ GRID, share @ GRID**2
    bend = (second - first**2 - 1.0) / v
    return log_mass / power, first / deviation / power, bend / power


def flat_power_ep(K, y, power, *, noise=1.0, residual=0.0, damping=0.8, sweeps=3000):
    """Power EP with a scalar site for each contrast f^j - f^y + u, on all functions and all u.

    Args:
        K: prior covariances (C, N, N).
        y: labels.
        power: in [0, 1]; 0 is the variational optimum.
        noise: variance of u, one for all rows or one each.
        residual: variance added to what each contrast's factor sees, (N, C) or a number.
        damping: share of the way.
        sweeps: at the most.
    """
    classes, count = len(K), len(y)
    rest, B = others(y, classes), contrast_matrix(y, classes)
    P = block_diag(*K, np.diag(np.broadcast_to(noise, count)))
    extra = np.take_along_axis(np.broadcast_to(residual, (count, classes)), rest, axis=1).ravel()
    S = B @ P @ B.T
    tau = nu = np.zeros(len(B))
    for _ in range(sweeps):
        inverse = np.linalg.inv(np.eye(len(B)) + S * tau)
        V = inverse @ S
        m, v = V @ nu, np.diag(V)
        left = 1.0 - power * tau * v
        m_c, v_c = (m - power * v * nu) / left, v / left
        log_mean, slope, bend = _power_moments(m_c, v_c + extra, power)
        rescaled = 1.0 + power * bend * v_c
        new_tau = -bend / rescaled
        new_nu = new_tau * m_c + slope / rescaled
        if max(np.abs(new_tau - tau).max(), np.abs(new_nu - nu).max()) < SETTLED:
            break
        tau, nu = tau + damping * (new_tau - tau), nu + damping * (new_nu - nu)
    else:
        raise RuntimeError("flat Power EP did not converge")
    volume = 0.5 * tau * v if power == 0.0 else -0.5 * np.log(left) / power
    removal = (0.5 * tau * m**2 - nu * m + 0.5 * power * nu**2 * v) / left + volume
    value = -0.5 * np.linalg.slogdet(np.eye(len(B)) + S * tau)[1] + 0.5 * nu @ m
    value = value + np.sum(log_mean + removal)
    PB, functions = P @ B.T, classes * count
    mean = (PB @ (nu - tau * m))[:functions].reshape(classes, count)
    cov = (P - PB @ (tau[:, None] * inverse) @ PB.T)[:functions, :functions]
    shape = (classes, count, classes, count)
    sites = (x.reshape(count, -1) for x in (tau, nu))
    return Solution(value, mean, cov.reshape(shape), *sites)


# ------------------------------------------------------------------------- Monte Carlo


def sampled_log_evidence(K, y, proposal, log_likelihood, size=8_000, wider=1.2, seed=0):
    """The log evidence by importance sampling from a widened Gaussian, and its standard error.

    Args:
        K: prior covariances (C, N, N).
        y: labels.
        proposal: a `Solution` whose moments are near the posterior's.
        log_likelihood: of functions (S, N, C) and labels, (S, N).
        size: samples.
        wider: the proposal's covariance over the solution's.
        seed: of the samples.
    """
    prior, dimension = block_diag(*K), K.shape[0] * K.shape[1]
    mean, cov = proposal.mean.ravel(), wider * proposal.cov.reshape(dimension, dimension)
    L = np.linalg.cholesky(cov)
    z = np.random.default_rng(seed).standard_normal((size, dimension))
    f = mean + z @ L.T
    log_prior = -0.5 * np.sum(f * np.linalg.solve(prior, f.T).T, axis=1)
    log_prior -= 0.5 * np.linalg.slogdet(prior)[1]
    log_proposal = -0.5 * np.sum(z**2, axis=1) - np.sum(np.log(np.diag(L)))
    functions = np.moveaxis(f.reshape(size, *K.shape[:2]), 1, 2)
    logs = log_likelihood(functions, y).sum(axis=1) + log_prior - log_proposal
    ratio = np.exp(logs - logs.max())
    value = logs.max() + np.log(ratio.mean())
    return value, ratio.std() / ratio.mean() / np.sqrt(size)
