"""Initial inducing variables of every kind, about points that were chosen for a kernel."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inducing.base import AbstractInducing, Points, covariance
from cavity.inducing.gaussian import Waves, Windows
from cavity.inducing.slopes import Slopes, check_slopes
from cavity.kernels.base import AbstractKernel
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float

KINDS = ("points", "windows", "waves", "slopes")
# Widths of initial windows and of windows with waves, as shares of the correlation lengths.
WINDOW, WAVE = 0.3, 0.5
# Distances at which correlations are looked at, in spreads of a column.
STEPS = np.geomspace(1e-3, 10.0, 60)


@with_one_blas_thread
def initial_inducing(
    kernel: AbstractKernel,
    X: ArrayLike,
    M: int,
    *,
    kind: str = "points",
    choice: str = "greedy",
    seed: int = 0,
) -> AbstractInducing:
    r"""M inducing variables of a kind, at places that `select_inducing` chooses, to learn from.

    Windows are three tenths of the kernel's correlation lengths wide, waves a half, with
    frequencies drawn as those of an RBF of these lengths. Slopes stand in groups of a place: the
    value there, and the slope along each column.

    Args:
        kernel: covariance function at its starting values.
        X: inputs, (N, D).
        M: number of variables; fewer come back where there are too few distinct rows.
        kind: "points", "windows", "waves" or "slopes".
        choice: of the places, as in `select_inducing`.
        seed: of random choices.

    Raises:
        ValueError: for an unknown kind, M below 1, windows and waves of a kernel without closed
            forms in more than three columns, and slopes of a kernel that has none.

    References:
        van der Wilk (2018), items 47 to 52.
    """
    if kind not in KINDS:
        raise ValueError(f"the kind of inducing variables is one of {KINDS}, given {kind!r}")
    columns = np.shape(X)[1]
    places = -(-M // (columns + 1)) if kind == "slopes" and M > 0 else M
    if kind == "slopes":
        check_slopes(kernel)
    Z = select_inducing(kernel, X, places, choice=choice, seed=seed)
    if kind == "points":
        return Points(Z)
    if kind == "slopes":
        numbers = np.tile(np.arange(-1, columns), len(Z))
        return Slopes(np.repeat(Z, columns + 1, axis=0)[:M], numbers[:M])
    lengths = correlation_lengths(kernel, X)
    variables: AbstractInducing = Windows(Z, WINDOW * lengths)
    if kind == "waves":
        normal = np.random.default_rng(seed).standard_normal(Z.shape)
        variables = Waves(Z, WAVE * lengths, normal / (2.0 * np.pi * lengths))
    # refuses kernels that have no covariance with these
    jax.eval_shape(lambda: covariance(kernel, variables, Points(Z[:1])))
    return variables


def correlation_lengths(kernel: AbstractKernel, X: ArrayLike) -> np.ndarray:
    r"""Distance that correlations reach along each column, (D,): lengthscales of an RBF kernel.

    From the middle of the data along a column, the distance at which the correlation has
    fallen to $e^{-1/2}$; ten spreads of the column at the most.
    """
    X = np.asarray(X, dtype=float)
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    middle = np.median(X, axis=0)
    along = np.eye(X.shape[1])[:, None] * (spread[:, None] * STEPS)[:, :, None]
    kernel = jax.tree.map(jnp.asarray, kernel)
    found = np.asarray(_correlations(kernel, middle, (middle + along).reshape(-1, X.shape[1])))
    correlation = np.clip(found.reshape(X.shape[1], len(STEPS)), 1e-6, 1.0)
    below = correlation <= np.exp(-0.5)
    first = np.where(below.any(axis=1), below.argmax(axis=1), len(STEPS) - 1)
    distance = STEPS[first] * spread
    fallen = -2.0 * np.log(np.take_along_axis(correlation, first[:, None], axis=1)[:, 0])
    return distance / np.sqrt(np.maximum(fallen, 1.0))


@compiled
def _correlations(
    kernel: AbstractKernel, middle: ArrayLike, places: ArrayLike
) -> Float[Array, " n"]:
    middle, places = jnp.asarray(middle), jnp.asarray(places)
    cross = kernel.cross(middle[None], places)[0]
    return cross / jnp.sqrt(kernel.diag(middle[None]) * kernel.diag(places))
