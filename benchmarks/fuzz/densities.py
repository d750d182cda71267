"""Log densities of likelihoods from their definitions, by scipy, and integrals over them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from cavity import likelihoods

LogDensity = Callable[[np.ndarray], np.ndarray]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


def log_density(likelihood: Any, f: np.ndarray, y: float) -> np.ndarray:
    """The log density of an output at latent values."""
    f = np.asarray(f, float)
    match likelihood:
        case likelihoods.Gaussian():
            return stats.norm.logpdf(y, f, np.sqrt(float(likelihood.variance)))
        case likelihoods.StudentT():
            return stats.t.logpdf(y, float(likelihood.df), f, float(likelihood.scale))
        case likelihoods.Laplace():
            return stats.laplace.logpdf(y, f, float(likelihood.scale))
        case likelihoods.Bernoulli():
            z = f if y > 0.5 else -f
            probit = likelihood.link == "probit"
            return special.log_ndtr(z) if probit else -np.logaddexp(0.0, -z)
        case likelihoods.Poisson():
            return y * f - np.exp(np.minimum(f, 700.0)) - special.gammaln(y + 1.0)
        case likelihoods.NegativeBinomial():
            size = 1.0 / float(likelihood.dispersion)
            growth = np.logaddexp(0.0, f - np.log(size))
            rising = special.gammaln(y + size) - special.gammaln(size) - special.gammaln(y + 1.0)
            return rising + y * (f - np.log(size)) - (y + size) * growth
        case likelihoods.Gamma():
            k = float(likelihood.shape)
            constant = k * np.log(k) - special.gammaln(k) + (k - 1.0) * np.log(y)
            return constant - k * f - k * np.exp(np.minimum(np.log(y) - f, 700.0))
        case likelihoods.Exponential():
            return -f - np.exp(np.minimum(np.log(y) - f, 700.0))
        case likelihoods.Beta():
            c, mean = float(likelihood.concentration), special.expit(f)
            a, b = np.maximum(c * mean, 1e-290), np.maximum(c * special.expit(-f), 1e-290)
            both = special.gammaln(c) - special.gammaln(a) - special.gammaln(b)
            return both + (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y)
        case likelihoods.OrdinalProbit():
            return _ordinal(likelihood, f, y)
    raise TypeError(f"no density for {type(likelihood).__name__}")


def _ordinal(likelihood: likelihoods.OrdinalProbit, f: np.ndarray, y: float) -> np.ndarray:
    steps = np.cumsum(np.concatenate([[0.0], np.asarray(likelihood.gaps)]))
    edges = np.concatenate([[-np.inf], float(likelihood.first) + steps, [np.inf]])
    low, high = edges[int(y)] - f, edges[int(y) + 1] - f
    # both ends on the side where tails are small
    swap = low > 0.0
    low, high = np.where(swap, -high, low), np.where(swap, -low, high)
    log_low, log_high = special.log_ndtr(low), special.log_ndtr(high)
    return log_high + np.log1p(-np.exp(np.minimum(log_low - log_high, -1e-300)))


class Tilted(NamedTuple):
    """Integral, mean and variance of a Gaussian times a power of a density."""

    log_integral: float
    mean: float
    var: float


def tilted(density: LogDensity, features: list[tuple[float, float]], power: float) -> Tilted:
    """The moments of a density to a power under a Gaussian, which is the first feature.

    Panels of Gauss-Legendre nodes end at many multiples of the widths of all features, and of the
    width of the peak about it.
    """
    mean, deviation = features[0]
    near = np.concatenate([-np.geomspace(40.0, 1e-3, 60), [0.0], np.geomspace(1e-3, 40.0, 60)])

    def log_product(f: np.ndarray) -> np.ndarray:
        return power * density(f) + stats.norm.logpdf(f, mean, deviation)

    ends = np.unique(np.concatenate([m + s * near for m, s in features]))
    for _ in range(5):
        values = log_product(ends)
        peak = int(np.argmax(values))
        inside = values > values[peak] - 30.0
        # a peak between two ends is found anew among ends that lie closer there
        apart = ends[min(peak + 1, len(ends) - 1)] - ends[max(peak - 1, 0)]
        spread = max(np.ptp(ends[inside]), apart) / 10.0
        ends = np.unique(np.concatenate([ends, ends[peak] + spread * near]))
    half, middle = np.diff(ends) / 2.0, (ends[1:] + ends[:-1]) / 2.0
    nodes = (middle[:, None] + half[:, None] * NODES).ravel()
    logs = log_product(nodes) + np.log((half[:, None] * WEIGHTS).ravel())
    total = np.logaddexp.reduce(logs)
    weights = np.exp(logs - total)
    centre = weights @ nodes
    return Tilted(float(total), float(centre), float(weights @ (nodes - centre) ** 2))


def expected(
    density: LogDensity, features: list[tuple[float, float]]
) -> tuple[float, float, float]:
    """The expected log density under a Gaussian, and its derivatives: mean once and twice."""
    mean, deviation = features[0]
    near = np.concatenate([-np.geomspace(40.0, 1e-3, 60), [0.0], np.geomspace(1e-3, 40.0, 60)])
    ends = np.unique(np.concatenate([m + s * near for m, s in features]))
    ends = ends[np.abs(ends - mean) <= 40.0 * deviation]
    half, middle = np.diff(ends) / 2.0, (ends[1:] + ends[:-1]) / 2.0
    nodes = (middle[:, None] + half[:, None] * NODES).ravel()
    z = (nodes - mean) / deviation
    weights = (half[:, None] * WEIGHTS).ravel() * stats.norm.pdf(z) / deviation
    logs = np.where(weights > 0.0, density(nodes), 0.0)
    slope, bend = weights * z / deviation, weights * (z**2 - 1.0) / deviation**2
    return float(weights @ logs), float(slope @ logs), float(bend @ logs)
