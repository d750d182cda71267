r"""Functions of a Gaussian input beside a linear map of it: $f(\mathbf x) - \mathbf W \mathbf x$.

A transition compares a state with a function of the state before, and both are Gaussian together:
$\mathbf z = \mathbf W \mathbf x + \ldots$. What the term of the transition depends on is the
distribution of the difference, for which there are the three approximations of
`inference/propagation.py`: weighted points at which it is Gaussian, its mean and covariance, and
those of the tangent at the mean. Covariances between functions are included.

References:
    Bui (2017), S41 with errata E14 and E15.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.propagation import (
    AbstractPropagation,
    Linearised,
    Moments,
    Nodes,
    at_points,
)
from cavity.models.deep.layer import LayerProcess
from cavity.models.process import TakesGaussianInputs
from cavity.models.state_space.propagation import StateBelief, inputs_of, moments_under
from cavity.numerics.gauss_hermite import gauss_hermite_grid
from cavity.numerics.qmc import normal_points
from cavity.numerics.types import Array, Float

# Coordinates up to which nodes are products, and nodes along each at the least.
PRODUCT, LEAST_NODES = 3, 3


class StateRows(NamedTuple):
    """Gaussian inputs of functions, one for each row.

    Attributes:
        mean: means.
        cov: covariances.
        x: known inputs that follow them, where the functions take those.
    """

    mean: Float[Array, "N D"]
    cov: Float[Array, "N D D"]
    x: Float[Array, "N C"]


class Differences(NamedTuple):
    r"""Weighted Gaussians for $f(\mathbf x) - \mathbf W (\mathbf x - \mathbf m)$.

    Attributes:
        mean: means.
        cov: covariances.
        log_weights: of each.
    """

    mean: Float[Array, "K N P"]
    cov: Float[Array, "K N P P"]
    log_weights: Float[Array, " K"]


@functools.cache
def state_nodes(size: int, count: int) -> tuple[Float[np.ndarray, "K D"], Float[np.ndarray, " K"]]:
    """Nodes for a standard normal, at least `count`, and their log weights; exact for quadratics.

    With up to three coordinates they are products of Gauss-Hermite nodes. Sites are matched to
    second moments: nodes that do not have these exactly would leave no fixed point.
    """
    if size > PRODUCT:
        points = normal_points(size, max(2 * (count // 2), 4 * size))
        points = points - np.mean(points, axis=0)
        root = np.linalg.cholesky(points.T @ points / len(points))
        return np.linalg.solve(root, points.T).T, np.full(len(points), -np.log(len(points)))
    along = max(LEAST_NODES, int(np.ceil(count ** (1.0 / size) - 1e-9)))
    return gauss_hermite_grid(along, size)


@functools.singledispatch
def differences(
    propagation: AbstractPropagation,
    functions: LayerProcess,
    rows: StateRows,
    W: Float[Array, "N P D"],
) -> Differences:
    """The distribution of the functions less a linear map of their input.

    Args:
        propagation: how it is approximated.
        functions: the functions.
        rows: their inputs.
        W: the linear map.
    """
    raise TypeError(f"no transitions by {type(propagation).__name__}")


@differences.register
def _at_nodes(
    propagation: Nodes, functions: LayerProcess, rows: StateRows, W: Float[Array, "N P D"]
) -> Differences:
    z, log_weights = state_nodes(rows.mean.shape[1], propagation.count)
    away = jnp.einsum("nij,kj->kni", jnp.linalg.cholesky(rows.cov), jnp.asarray(z))
    mean, var = at_points(functions, rows.mean + away, rows.x)
    mean = mean - jnp.einsum("npd,knd->knp", W, away)
    cov = var[..., None] * jnp.eye(var.shape[-1])
    return Differences(mean, cov, jnp.asarray(log_weights, mean.dtype))


@differences.register
def _moment_differences(
    propagation: Moments, functions: LayerProcess, rows: StateRows, W: Float[Array, "N P D"]
) -> Differences:
    inputs = inputs_of(functions, StateBelief(rows.mean, rows.cov), rows.x)
    size = rows.mean.shape[1]
    mean, cov = moments_under(functions, inputs)
    process, prior = cast(TakesGaussianInputs, functions.process), functions.mean
    slopes = jnp.swapaxes(process.slopes_under(inputs), 1, 2)[:, :, :size]
    if not prior.mean.constant:
        slopes = slopes + _row_slopes(prior, inputs.mean)[:, :, :size]
    # what the mean has beside its linear part, and the functions' own variance
    bent = cov - slopes @ rows.cov @ jnp.swapaxes(slopes, 1, 2)
    return _one_gaussian(mean, slopes - W, bent, rows)


@differences.register
def _tangent_differences(
    propagation: Linearised, functions: LayerProcess, rows: StateRows, W: Float[Array, "N P D"]
) -> Differences:
    (mean,), (within,) = at_points(functions, rows.mean[None], rows.x)

    def value(x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        return functions.moments(functions.with_inputs(x, rows.x))[0]

    own = within[..., None] * jnp.eye(within.shape[1])
    return _one_gaussian(mean, _row_slopes(value, rows.mean) - W, own, rows)


def _one_gaussian(
    mean: Float[Array, "N P"],
    slopes: Float[Array, "N P D"],
    cov: Float[Array, "N P P"],
    rows: StateRows,
) -> Differences:
    """A difference with these slopes in the input, and a covariance beside theirs."""
    cov = cov + slopes @ rows.cov @ jnp.swapaxes(slopes, 1, 2)
    return Differences(mean[None], cov[None], jnp.zeros(1, cov.dtype))


def _row_slopes(
    function: Callable[[Float[Array, "N D"]], Float[Array, "N P"]], x: Float[Array, "N D"]
) -> Float[Array, "N P D"]:
    """Slopes of a function whose rows do not depend on each other."""
    columns = jnp.eye(x.shape[1], dtype=x.dtype)

    def along(direction: Float[Array, " D"]) -> Float[Array, "N P"]:
        return jax.jvp(function, (x,), (jnp.broadcast_to(direction, x.shape),))[1]

    return jnp.stack([along(column) for column in columns], axis=2)
