r"""Gauss-Hermite quadrature: nodes and weights that stand for a standard normal."""

import functools

import numpy as np

from cavity.numerics.types import Float

# Nodes at the most. The eigenvalues of larger matrices take seconds.
MOST_NODES = 1000


@functools.cache
def gauss_hermite(count: int) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " S"]]:
    r"""Nodes for a standard normal, in rising order, and the logarithms of their weights.

    Exact for polynomials up to degree 2 count - 1. Nodes are the eigenvalues of the tridiagonal
    matrix of the recurrence of orthonormal Hermite polynomials, $\sqrt{k+1}\, p_{k+1} = x p_k -
    \sqrt{k}\, p_{k-1}$; a weight is $1 / \sum_{k < S} p_k^2$ at its node, summed in scales of its
    own, as polynomials of high degree overflow where weights are tiny.

    Args:
        count: the number of nodes, from 1 to 1,000.

    Raises:
        ValueError: for other numbers.

    References:
        Golub and Welsch (1969), Calculation of Gauss quadrature rules.
    """
    if not 1 <= count <= MOST_NODES:
        raise ValueError(
            f"Gauss-Hermite quadrature has from 1 to {MOST_NODES:,} nodes in each dimension, "
            f"given {count}: ask for fewer"
        )
    beside = np.sqrt(np.arange(1.0, count))
    x = np.linalg.eigvalsh(np.diag(beside, 1) + np.diag(beside, -1))
    x = 0.5 * (x - x[::-1])
    before, last = np.zeros(count), np.ones(count)
    total, log_scale = np.ones(count), np.zeros(count)
    for k in range(1, count):
        before, last = last, (x * last - np.sqrt(k - 1.0) * before) / np.sqrt(k)
        total = total + last**2
        scale = np.sqrt(total)
        before, last, total = before / scale, last / scale, np.ones(count)
        log_scale = log_scale + np.log(scale)
    return x, -2.0 * log_scale


@functools.cache
def gauss_hermite_grid(
    count: int, columns: int
) -> tuple[Float[np.ndarray, "S D"], Float[np.ndarray, " S"]]:
    """All combinations of `count` nodes in every column, and the logarithms of their weights.

    Raises:
        ValueError: as `gauss_hermite`.
    """
    x, log_weights = gauss_hermite(count)
    points, each = (
        np.stack(np.meshgrid(*[a] * columns, indexing="ij"), axis=-1).reshape(-1, columns)
        for a in (x, log_weights)
    )
    return points, np.sum(each, axis=1)
