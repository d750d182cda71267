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

from cavity.inducing.base import inducing_points
from cavity.inference.graph.views import InducingView
from cavity.inference.propagation import (
    AbstractPropagation,
    Linearised,
    Moments,
    Nodes,
    at_points,
)
from cavity.inference.variables.inducing import InducingBelief
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_forms,
    expected_cross,
    expected_diag,
    expected_slopes,
)
from cavity.models.deep.layer import LayerProcess
from cavity.models.process import TakesGaussianInputs
from cavity.models.state_space.views import state_inputs
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


class JointMoments(NamedTuple):
    """Moments of functions at Gaussian inputs.

    Attributes:
        mean: means.
        within: variances at an input, averaged over inputs.
        slopes: expected slopes of the functions' means.
        bent: covariances of what is left of these means without their linear part.
    """

    mean: Float[Array, "N P"]
    within: Float[Array, "N P"]
    slopes: Float[Array, "N P D"]
    bent: Float[Array, "N P P"]


@functools.cache
def state_nodes(size: int, count: int) -> tuple[Float[np.ndarray, "K D"], Float[np.ndarray, " K"]]:
    """At least so many nodes for a standard normal, and their weights, exact for quadratics.

    With up to three coordinates they are products of Gauss-Hermite nodes. Sites are matched to
    second moments: nodes that do not have these exactly would leave no fixed point.
    """
    if size > PRODUCT:
        points = normal_points(size, max(2 * (count // 2), 4 * size))
        points = points - np.mean(points, axis=0)
        root = np.linalg.cholesky(points.T @ points / len(points))
        return np.linalg.solve(root, points.T).T, np.full(len(points), 1.0 / len(points))
    along = max(LEAST_NODES, int(np.ceil(count ** (1.0 / size) - 1e-9)))
    x, w = np.polynomial.hermite_e.hermegauss(along)
    points = np.stack(np.meshgrid(*[x] * size, indexing="ij"), axis=-1).reshape(-1, size)
    return points, functools.reduce(np.multiply.outer, [w / np.sum(w)] * size).ravel()


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
    z, weights = state_nodes(rows.mean.shape[1], propagation.count)
    away = jnp.einsum("nij,kj->kni", jnp.linalg.cholesky(rows.cov), jnp.asarray(z))
    mean, var = at_points(functions, rows.mean + away, rows.x)
    mean = mean - jnp.einsum("npd,knd->knp", W, away)
    cov = var[..., None] * jnp.eye(var.shape[-1])
    return Differences(mean, cov, jnp.asarray(np.log(weights), mean.dtype))


@differences.register
def _by_moments(
    propagation: Moments, functions: LayerProcess, rows: StateRows, W: Float[Array, "N P D"]
) -> Differences:
    moments = joint_moments(functions, rows)
    return _one_gaussian(moments, rows, W)


@differences.register
def _by_tangents(
    propagation: Linearised, functions: LayerProcess, rows: StateRows, W: Float[Array, "N P D"]
) -> Differences:
    (mean,), (within,) = at_points(functions, rows.mean[None], rows.x)

    def value(x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        return functions.moments(functions.with_inputs(x, rows.x))[0]

    slopes = _row_slopes(value, rows.mean)
    bent = jnp.zeros((*mean.shape, mean.shape[1]), mean.dtype)
    return _one_gaussian(JointMoments(mean, within, slopes, bent), rows, W)


def _one_gaussian(moments: JointMoments, rows: StateRows, W: Float[Array, "N P D"]) -> Differences:
    B = moments.slopes - W
    within = moments.within[..., None] * jnp.eye(W.shape[1])
    cov = moments.bent + within + B @ rows.cov @ jnp.swapaxes(B, 1, 2)
    return Differences(moments.mean[None], cov[None], jnp.zeros(1, cov.dtype))


def joint_moments(functions: LayerProcess, rows: StateRows) -> JointMoments:
    """Moments of functions at Gaussian inputs, with means that are affine.

    Functions with kernels or inducing variables of their own have covariances by the linear parts
    of their means alone.
    """
    size = rows.mean.shape[1]
    sees = functions.skip_connection
    inputs = state_inputs(rows.mean, rows.cov, rows.x if sees else None)
    process = cast(TakesGaussianInputs, functions.process)
    groups = [_of_group(*pair, inputs, rows.cov) for pair in process.sparse_functions()]
    mean, within, slopes = (
        jnp.concatenate([group[i] for group in groups], axis=1) for i in range(3)
    )
    bent = _block_diagonal([group.bent for group in groups])
    prior = functions.mean
    mean = mean + prior(inputs.mean)
    if not prior.mean.constant:
        slopes = slopes + _row_slopes(prior, inputs.mean)[:, :, :size]
    return JointMoments(mean, within, slopes, bent)


def _of_group(
    view: InducingView,
    belief: InducingBelief,
    inputs: GaussianInputs,
    cov: Float[Array, "N D D"],
) -> JointMoments:
    """Moments of functions with one kernel, prior means left out."""
    kernel, root, Z = view.kernel, view.root, inducing_points(view.inducing)
    mean, size = belief.mean.reshape(-1, root.shape[0]), cov.shape[1]
    weights = mean @ root
    outputs = len(weights)
    first, second = np.tril_indices(outputs)
    products = weights[first][:, :, None] * weights[second][:, None, :]
    own = belief.root @ root
    spread = jnp.swapaxes(own, 1, 2) @ own
    matrices = [(root.T @ root)[None], spread, 0.5 * (products + jnp.swapaxes(products, 1, 2))]
    forms = covariance_forms(kernel, inputs, Z, jnp.concatenate(matrices))
    half = root @ expected_cross(kernel, inputs, Z).T
    explained = jnp.sum(half**2, axis=0) + forms[:, 0]
    unexplained = jnp.maximum(expected_diag(kernel, inputs) - explained, 0.0)
    groups = len(spread)
    variance = jnp.sum((belief.root @ half) ** 2, axis=1).T + forms[:, 1 : 1 + groups]
    within = unexplained[:, None] + jnp.maximum(variance, 0.0)
    between = jnp.zeros((len(half.T), outputs, outputs), half.dtype)
    between = between.at[:, first, second].set(forms[:, 1 + groups :])
    between = between.at[:, second, first].set(forms[:, 1 + groups :])
    slopes = jnp.einsum("nmd,pm->npd", expected_slopes(kernel, inputs, Z), weights)[:, :, :size]
    bent = between - slopes @ cov @ jnp.swapaxes(slopes, 1, 2)
    within = jnp.broadcast_to(within, (len(within), outputs))
    return JointMoments((mean @ half).T, within, slopes, bent)


def _row_slopes(
    function: Callable[[Float[Array, "N D"]], Float[Array, "N P"]], x: Float[Array, "N D"]
) -> Float[Array, "N P D"]:
    """Slopes of a function whose rows do not depend on each other."""
    columns = jnp.eye(x.shape[1], dtype=x.dtype)

    def along(direction: Float[Array, " D"]) -> Float[Array, "N P"]:
        return jax.jvp(function, (x,), (jnp.broadcast_to(direction, x.shape),))[1]

    return jnp.stack([along(column) for column in columns], axis=2)


def _block_diagonal(blocks: list[Float[Array, "N p p"]]) -> Float[Array, "N P P"]:
    """Matrices along a diagonal, for each row."""
    if len(blocks) == 1:
        return blocks[0]
    return jax.vmap(jax.scipy.linalg.block_diag)(*blocks)
