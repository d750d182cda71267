"""The entropy of a density of which only samples are there."""

import math

import numpy as np
from numpy.typing import ArrayLike


def sample_entropy(samples: ArrayLike, neighbours: int = 3) -> float:
    r"""The differential entropy of samples, in nats, by distances to nearest neighbours.

    With $r_i$ the distance of sample i to its k-th neighbour, among N samples of d numbers,

    $$\hat H = \frac dN \sum_i \log r_i + \log V_d + \psi(N) - \psi(k),$$

    with $V_d$ the volume of the unit ball. Samples of many numbers need to be many themselves.

    Args:
        samples: (N, d), or (N,) for one number each.
        neighbours: k.

    Raises:
        ValueError: for samples that are not finite, too few for so many neighbours, or so often
            the same that a distance is zero.

    References:
        Kozachenko and Leonenko (1987); Bui (2017), S52.
    """
    from scipy.spatial import KDTree
    from scipy.special import digamma

    x = np.asarray(samples, float)
    x = x[:, None] if x.ndim == 1 else x
    count, size = x.shape
    if neighbours < 1 or neighbours >= count:
        raise ValueError(
            f"a sample needs {neighbours} neighbours (at least 1) among {count} samples: draw "
            "more, or ask for fewer neighbours"
        )
    if not np.all(np.isfinite(x)):
        raise ValueError("samples must be finite, given NaN or infinite ones")
    distance = KDTree(x).query(x, k=neighbours + 1)[0][:, -1]
    if np.any(distance <= 0.0):
        raise ValueError(
            f"a sample is there {neighbours + 1} times, so that it has no density: add noise, or "
            "ask for more neighbours"
        )
    ball = 0.5 * size * math.log(math.pi) - math.lgamma(0.5 * size + 1.0)
    average = float(np.mean(np.log(distance)))
    return size * average + ball + float(digamma(count) - digamma(neighbours))
