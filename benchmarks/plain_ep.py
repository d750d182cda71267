"""Expectation propagation for sparse linear models in plain numpy: a check of fixed points.

Nothing here comes from the library. Gaussian noise of known variance, one site for each
coefficient, power 1. Cavities come from the covariance of the outputs, n by n, with one column
left out, so that no digits are lost where a site is narrow.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, softmax

# Moments of a prior times a Gaussian: means and variances to means and variances.
Moments = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Sites(NamedTuple):
    """Gaussian factors in the place of the priors, (p,) each.

    Attributes:
        shift: precision times mean.
        precision: precisions, which may be negative.
    """

    shift: np.ndarray
    precision: np.ndarray


def spike_slab(share: float, slab: float) -> Moments:
    """Moments under a mixture of a point at zero and a Gaussian."""

    def moments(m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # the library's point has a variance, of which its sites are as wide
        return _of_mixture(m, v, np.log([1.0 - share, share]), np.array([1e-10 * slab, slab]))

    return moments


def horseshoe(scale: float, step: float = 0.2) -> Moments:
    """Moments under the horseshoe, by the trapezoidal rule in the log of the local variance."""
    psi = np.arange(-40.0, 60.0, step)
    log_density = math.log(step) - np.log(2.0 * math.pi * np.cosh(psi / 2.0))
    variances = scale**2 * np.exp(psi)
    return lambda m, v: _of_mixture(m, v, log_density, variances)


def laplace(scale: float) -> Moments:
    """Moments under a Laplace density, by its two sides."""

    def moments(m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        s = np.sqrt(v)
        x = np.stack([m / s - s / scale, -m / s - s / scale])
        log_mass = log_ndtr(x) + np.stack([-m / scale, m / scale])
        weight = np.exp(log_mass - np.logaddexp(log_mass[0], log_mass[1]))
        # a Gaussian of mean x and variance 1, cut off below zero
        r = np.exp(-0.5 * x**2 - 0.5 * math.log(2.0 * math.pi) - log_ndtr(x))
        mean, square = x + r, 1.0 + x**2 + x * r
        first = s * (weight[0] * mean[0] - weight[1] * mean[1])
        return first, v * (weight * square).sum(axis=0) - first**2

    return moments


def _of_mixture(
    m: np.ndarray, v: np.ndarray, log_share: np.ndarray, variances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Moments under a mixture of Gaussians about zero."""
    total = v + variances[:, None]
    log_weight = log_share[:, None] - 0.5 * np.log(total) - 0.5 * m**2 / total
    weight = softmax(log_weight, axis=0)
    means, within = variances[:, None] / total * m, variances[:, None] * v / total
    mean = (weight * means).sum(axis=0)
    return mean, (weight * (within + (means - mean) ** 2)).sum(axis=0)


def cavities(X: np.ndarray, y: np.ndarray, noise: float, sites: Sites) -> Sites:
    """What all but its own site say of each coefficient, as shift and precision."""
    variance = 1.0 / sites.precision
    means = variance * sites.shift
    covariance = noise * np.eye(len(y)) + (X * variance) @ X.T
    solved = np.linalg.solve(covariance, np.column_stack([X, y - X @ means]))
    q, s = np.sum(X * solved[:, :-1], axis=0), X.T @ solved[:, -1]
    left = 1.0 - variance * q
    return Sites((s + q * means) / left, q / left)


def beliefs(cavity: Sites, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations of the coefficients."""
    precision = cavity.precision + sites.precision
    return (cavity.shift + sites.shift) / precision, 1.0 / np.sqrt(precision)


def mismatch(X: np.ndarray, y: np.ndarray, noise: float, moments: Moments, sites: Sites) -> float:
    """How far sites are from a fixed point: infinite where a cavity is improper.

    The largest difference between moments of a cavity times the prior and those of the belief:
    of means in deviations, of deviations as a share.
    """
    cavity = cavities(X, y, noise, sites)
    mean, deviation = beliefs(cavity, sites)
    if not (np.all(cavity.precision > 0.0) and np.all(np.isfinite(deviation))):
        return math.inf
    found, variance = moments(cavity.shift / cavity.precision, 1.0 / cavity.precision)
    of_means = np.abs(found - mean) / deviation
    return float(np.max([of_means, np.abs(np.sqrt(variance) / deviation - 1.0)]))


def swept(
    X: np.ndarray, y: np.ndarray, noise: float, moments: Moments, sites: Sites, step: float
) -> Sites:
    """Sites after one parallel sweep of so long a step."""
    cavity = cavities(X, y, noise, sites)
    mean, variance = moments(cavity.shift / cavity.precision, 1.0 / cavity.precision)
    # a variance of the cavity's own leaves no site: keep its precision off zero
    precision = 1.0 / variance - cavity.precision
    tiny = 1e-12 * cavity.precision
    precision = np.where(np.abs(precision) < tiny, tiny, precision)
    matched = Sites(mean / variance - cavity.shift, precision)
    return Sites(*(old + step * (new - old) for old, new in zip(sites, matched, strict=True)))


def moved(
    X: np.ndarray, y: np.ndarray, noise: float, moments: Moments, sites: Sites, sweeps: int
) -> float:
    """How far damped sweeps take any mean from where it was, in deviations."""
    mean, deviation = beliefs(cavities(X, y, noise, sites), sites)
    for _ in range(sweeps):
        sites = swept(X, y, noise, moments, sites, 0.3)
    last, _ = beliefs(cavities(X, y, noise, sites), sites)
    away = np.abs(last - mean) / deviation
    return float(np.max(np.where(np.isfinite(away), away, math.inf)))
