"""Initial inducing points: pivoted Cholesky, k-means or a random subset; blocks of rows."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import AbstractKernel
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.numerics.chunking import padded_size
from cavity.numerics.jit import Bound, compiled
from cavity.numerics.types import Array

# Rows that the greedy choice looks at; more add little and cost memory.
CANDIDATES = 10_000
# Share of the largest variance below which a conditional variance is rounding error.
EXHAUSTED = 1e-10
CHOICES = ("greedy", "kmeans", "random")


@with_one_blas_thread
def select_inducing(
    kernel: AbstractKernel, X: ArrayLike, M: int, *, choice: str = "greedy", seed: int = 0
) -> np.ndarray:
    r"""M inducing points for data X.

    Args:
        kernel: covariance function at its starting values; only "greedy" looks at it.
        X: inputs, (N, D).
        M: number of points; at most the number of distinct rows are returned.
        choice: "greedy" takes the row of largest conditional variance given the rows taken so
            far (pivoted Cholesky), "kmeans" the centres of clusters, "random" a random subset.
        seed: of random choices.

    Returns:
        Points, (min(M, distinct rows), D).

    Raises:
        ValueError: for an unknown choice, or M below 1.

    References:
        van der Wilk (2018), item 47; Burt, Rasmussen and van der Wilk (2020) for the greedy
        choice.
    """
    if choice not in CHOICES:
        raise ValueError(f"inducing points are chosen by one of {CHOICES}, given {choice!r}")
    if M < 1:
        raise ValueError(f"the number of inducing points must be at least 1, given {M}")
    random = np.random.default_rng(seed)
    distinct = np.unique(np.asarray(X, dtype=float), axis=0)
    if len(distinct) <= M:
        return distinct
    if choice == "random":
        return distinct[np.sort(random.choice(len(distinct), M, replace=False))]
    if choice == "kmeans":
        return _kmeans(distinct, M, int(random.integers(2**31)))
    if len(distinct) > CANDIDATES:
        kept = random.choice(len(distinct), max(CANDIDATES, M), replace=False)
        distinct = distinct[np.sort(kept)]
    pivots = _pivots(kernel, distinct, M)
    others = np.setdiff1d(np.arange(len(distinct)), pivots)
    more = random.choice(others, M - len(pivots), replace=False)
    return distinct[np.concatenate([pivots, more])]


def _column(kernel: AbstractKernel, X: Array, point: Array) -> Array:
    return kernel.cross(X, point[None])[:, 0]


@compiled
def _diagonal(kernel: AbstractKernel, X: ArrayLike) -> Array:
    return kernel.diag(jnp.asarray(X))


def extended_inducing(
    kernel: AbstractKernel, Z: np.ndarray, X: np.ndarray, left: float, most: int
) -> np.ndarray:
    """Inducing points, and rows added to them until all rows are explained.

    Args:
        kernel: covariance function.
        Z: the points at hand, (M, D).
        X: rows, (N, D).
        left: the share of the largest variance that may be left at any row.
        most: points in all, at the most.

    Returns:
        The points at hand, then those added in the order of the variance that they explain.
    """
    rows = np.unique(X, axis=0)
    rows = rows[~np.any(np.all(rows[:, None] == Z[None], axis=2), axis=1)]
    both = np.concatenate([Z, rows])
    pivots = _pivots(kernel, both, min(max(most, len(Z)), len(both)), first=len(Z), least=left)
    return both[pivots]


def _pivots(
    kernel: AbstractKernel, X: np.ndarray, M: int, *, first: int = 0, least: float = EXHAUSTED
) -> np.ndarray:
    """The first pivots of a pivoted Cholesky factorisation of the covariance of X.

    M of them, or fewer where the rest of the rows have less than a share of variance left.

    Args:
        kernel: covariance function.
        X: rows, (N, D).
        M: pivots at the most.
        first: so many rows are pivots whatever they explain, in their order.
        least: the share of the largest variance below which rows count as explained.
    """
    padding = np.repeat(X[:1], padded_size(len(X)) - len(X), axis=0)
    inputs = np.concatenate([X, padding]).astype(jnp.zeros(()).dtype)
    kernel = jax.tree.map(jnp.asarray, kernel)
    left = np.array(_diagonal(kernel, inputs), dtype=float)[: len(X)]  # conditional variances
    column_of = Bound(_column, kernel, inputs)
    tiny = EXHAUSTED * np.max(left)
    enough = max(least * np.max(left), tiny)
    rows = np.zeros((M, len(X)))
    pivots = np.zeros(M, dtype=int)
    for m in range(M):
        pivot = pivots[m] = m if m < first else int(np.argmax(left))
        if m < first and not left[pivot] > tiny:
            continue
        if not left[pivot] > enough and m >= first:
            return pivots[:m]
        column = np.asarray(column_of(inputs[pivot]), dtype=float)[: len(X)]
        column = column - rows[:m, pivot] @ rows[:m]
        rows[m] = column / np.sqrt(left[pivot])
        left = left - rows[m] ** 2
        left[pivots[: m + 1]] = 0.0  # each row at most once
    return pivots


def _kmeans(X: np.ndarray, M: int, seed: int) -> np.ndarray:
    """Centres of M clusters of the columns at unit spread, started by k-means++."""
    from sklearn.cluster import MiniBatchKMeans

    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    method = MiniBatchKMeans(M, init="k-means++", n_init="auto", random_state=seed)
    found = method.fit(X / spread)
    return np.asarray(found.cluster_centers_) * spread


def cluster_blocks(X: ArrayLike, size: int, *, seed: int = 0) -> np.ndarray:
    """Labels of blocks of neighbouring rows, at most `size` rows each and at least about half.

    Args:
        X: inputs, (N, D).
        size: rows of a block at the most.
        seed: of the clustering.

    Raises:
        ValueError: for a size below 1.
    """
    if size < 1:
        raise ValueError(f"blocks need at least one row, given a size of {size}")
    X = np.asarray(X, dtype=float)
    spread = X.std(axis=0)
    random = np.random.default_rng(seed)
    return _halve(X / np.where(spread > 0, spread, 1.0), size, random)


def _halve(X: np.ndarray, size: int, random: np.random.Generator) -> np.ndarray:
    """Splits at the median along a principal direction until the parts are small enough."""
    labels = np.zeros(len(X), dtype=int)
    parts, done = [np.arange(len(X))], 0
    while parts:
        rows = parts.pop()
        if len(rows) <= size:
            labels[rows] = done
            done += 1
            continue
        centred = X[rows] - X[rows].mean(axis=0)
        direction = random.standard_normal(X.shape[1])
        for _ in range(3):  # power iterations: the direction need only be roughly principal
            direction = centred.T @ (centred @ direction)
            direction = direction / max(np.linalg.norm(direction), 1e-300)
        order = np.argsort(centred @ direction, kind="stable")
        half = len(rows) // 2
        parts += [rows[order[half:]], rows[order[:half]]]
    return labels
