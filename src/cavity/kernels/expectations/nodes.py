"""Nodes that stand for Gaussian inputs, for kernels without closed expectations."""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from cavity.kernels.base import AbstractKernel, Active, Product, Scaled, Sum
from cavity.kernels.expectations.inputs import GaussianInputs
from cavity.numerics.gauss_hermite import gauss_hermite_grid
from cavity.numerics.linalg import safe_sqrt, semidefinite_root
from cavity.numerics.qmc import normal_points
from cavity.numerics.types import Array, Float

# Gauss-Hermite nodes per column, for one, two and three columns; even, so that none is the mean.
PER_COLUMN = (64, 32, 12)
# Quasi-random nodes for more columns.
QUASI_RANDOM = 512


@functools.singledispatch
def columns_used(kernel: AbstractKernel, D: int) -> frozenset[int]:
    """The columns of the input, of D, that a kernel depends on."""
    return frozenset(range(D))


@columns_used.register
def _(kernel: Active, D: int) -> frozenset[int]:
    inner = columns_used(kernel.kernel, len(kernel.dims))
    return frozenset(kernel.dims[i] for i in inner)


@columns_used.register
def _(kernel: Scaled, D: int) -> frozenset[int]:
    return columns_used(kernel.kernel, D)


@columns_used.register(Sum)
@columns_used.register(Product)
def _(kernel: Sum | Product, D: int) -> frozenset[int]:
    return columns_used(kernel.first, D) | columns_used(kernel.second, D)


@functools.cache
def standard_nodes(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (S, columns) and weights (S,) that stand for a standard normal."""
    if columns == 0:
        return np.zeros((1, 0)), np.ones(1)
    if columns > len(PER_COLUMN):
        points = normal_points(columns, max(QUASI_RANDOM, 4 * columns))
        return points, np.full(len(points), 1.0 / len(points))
    points, log_weights = gauss_hermite_grid(PER_COLUMN[columns - 1], columns)
    weights = np.exp(log_weights)
    # what weighs nothing costs as much as the others
    heavy = weights > 1e-20
    return points[heavy], weights[heavy] / np.sum(weights[heavy])


def node_inputs(
    inputs: GaussianInputs, columns: Sequence[int], standard: np.ndarray
) -> Float[Array, "N S D"]:
    """The places of nodes: means, with these columns moved by the nodes."""
    if not columns:
        return inputs.mean[:, None, :]
    index = jnp.asarray(columns)
    offset = jnp.asarray(standard, inputs.mean.dtype)
    if inputs.cov.ndim == 2:
        steps = offset * safe_sqrt(inputs.cov[:, None, index])
    else:
        root = semidefinite_root(inputs.cov[:, index[:, None], index])
        steps = jnp.einsum("sa,nda->nsd", offset, root)
    places = jnp.broadcast_to(
        inputs.mean[:, None], (len(inputs.mean), len(offset), inputs.mean.shape[1])
    )
    return places.at[:, :, index].add(steps)
