"""Power means of a density under a Gaussian, by brute force, in plain numpy.

Ten thousand nodes a case: panels of half a deviation about the mean, and panels a quarter as long
as their distance from every feature that the caller names. Knows nothing of the package.
"""

import numpy as np

POINTS, WEIGHTS = np.polynomial.legendre.leggauss(20)
# Steep likelihoods move the mass by many deviations.
FAR = 40.0 * 1.03 ** np.arange(1, 150)
AROUND_MEAN = np.concatenate([-FAR[::-1], np.arange(-40.0, 40.25, 0.5), FAR])
STEPS = 0.05 * 1.25 ** np.arange(0, 90)
AROUND_FEATURE = np.concatenate([-STEPS[::-1], [0.0], STEPS])


def nodes(mean, sd, features):
    """Nodes and log weights of the Gaussian, on panels about the mean and every feature."""
    parts = [mean + sd * AROUND_MEAN] + [c + w * AROUND_FEATURE for c, w in features]
    edges = np.unique(np.concatenate(parts))
    edges = edges[np.abs(edges - mean) <= FAR[-1] * sd]
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    f = (middle + half * POINTS).ravel()
    z = (f - mean) / sd
    length = np.log((half * WEIGHTS).ravel()) - np.log(sd)
    return f, length - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def power_mean(log_prob, features, mean, sd, power):
    """log M_a, its slope times the deviation, and its curvature times the variance.

    Args:
        log_prob: the log density as a function of f.
        features: pairs of a place in f and a width, wherever the density bends.
        mean: of the Gaussian.
        sd: its deviation.
        power: a.
    """
    f, log_weight = nodes(mean, sd, features)
    value, z = log_prob(f), (f - mean) / sd
    if power == 0.0:
        w = np.exp(log_weight)
        # E[l], E[l z], E[l (z² - 1)], where a constant changes only the first
        centred = np.where(w > 0.0, w * (value - value[np.argmax(w)]), 0.0)
        log_mean = value[np.argmax(w)] + centred.sum()
        return np.array([log_mean, (centred * z).sum(), (centred * (z**2 - 1.0)).sum()])
    logs = power * value + log_weight
    top = np.max(logs)
    w = np.exp(logs - top)
    total = w.sum()
    moved = (w * z).sum() / total
    spread = (w * (z - moved) ** 2).sum() / total
    return np.array([(top + np.log(total)) / power, moved / power, (spread - 1.0) / power])
