"""Tied sites of states by dense algebra: natural parameters, and integrals of Gaussians."""

import dataclasses

import numpy as np

LOG_2PI = np.log(2.0 * np.pi)


def log_partition(shift, precision):
    """The log of the integral of exp(hᵀx - xᵀPx/2)."""
    volume = np.linalg.slogdet(precision)[1] - len(shift) * LOG_2PI
    return 0.5 * (shift @ np.linalg.solve(precision, shift) - volume)


def natural(mean, cov):
    precision = np.linalg.inv(cov)
    return precision @ mean, precision


@dataclasses.dataclass(frozen=True)
class Terms:
    """What the energy adds up for states with given means and covariances, at one power.

    Attributes:
        states: of every row, its own terms.
        transitions: log power means of the transitions into rows.
        outputs: log power means of the outputs of rows.
    """

    states: np.ndarray
    transitions: np.ndarray
    outputs: np.ndarray

    @property
    def total(self):
        return float(np.sum(self.states) + np.sum(self.transitions) + np.sum(self.outputs))


def power_mean(mean, cov, noise, power):
    """The log of the mean of N(e; 0, R)^a over e ~ N(mean, cov), divided by a; expected at 0."""
    R = np.diag(noise)
    if power == 0.0:
        second = cov + np.outer(mean, mean)
        return -0.5 * (np.linalg.slogdet(2 * np.pi * R)[1] + np.trace(np.linalg.solve(R, second)))
    total = cov + R / power
    constant = np.linalg.slogdet(2 * np.pi * R / power)[1]
    constant -= power * np.linalg.slogdet(2 * np.pi * R)[1]
    quadratic = mean @ np.linalg.solve(total, mean) + np.linalg.slogdet(2 * np.pi * total)[1]
    return 0.5 * (constant - quadratic) / power


def tied_terms(model, y, controls, link, means, covs, power):
    """S42 of bui.md with E18, for known linear transitions and outputs.

    Every state has its site as often as terms touch it: that of the transition into it, that of
    the next, and that of its outputs where there are any.
    """
    T, size = means.shape
    seen = ~np.isnan(y)
    going = np.append(link[1:T], 0.0)
    cavities, states = [], np.zeros(T)
    for t in range(T):
        count = link[t] + going[t] + float(seen[t].any())
        h, P = natural(means[t], covs[t])
        prior = np.zeros(size), np.zeros((size, size))
        if not link[t]:
            prior = natural(model.m0, np.diag(model.v0))
            states[t] = -log_partition(*prior)
        site = (h - prior[0]) / count, (P - prior[1]) / count
        left = h - power * site[0], P - power * site[1]
        cov = np.linalg.inv(left[1])
        cavities.append((cov @ left[0], cov))
        if power == 0.0:  # the limit: less the expected logarithm of all sites
            second = covs[t] + np.outer(means[t], means[t])
            removed = 0.5 * np.trace(site[1] @ second) - site[0] @ means[t]
            states[t] += log_partition(h, P) + count * removed
        else:
            ratio = log_partition(*left) - log_partition(h, P)
            states[t] += log_partition(h, P) + count / power * ratio
    transitions, outputs = np.zeros(T), np.zeros(T)
    for t in range(T):
        m, V = cavities[t]
        if link[t]:
            before, spread = cavities[t - 1]
            off = m - model.A @ before - model.B @ controls[t] - model.b
            cov = V + model.A @ spread @ model.A.T
            transitions[t] = power_mean(off, cov, model.Q, power)
        if seen[t].any():
            C = model.C[seen[t]]
            off = y[t, seen[t]] - C @ m - model.d[seen[t]]
            outputs[t] = power_mean(off, C @ V @ C.T, model.R[seen[t]], power)
    return Terms(states, transitions, outputs)
