r"""Weighted sums of covariances with the parts of one input, and their derivatives by hand.

With $\mathbf K$ the covariances of M places with P parts, weights $\mathbf w$ and the derivative
$\mathbf s$ of the sums $\mathbf K \mathbf w$, everything follows from
$\mathbf R = \mathbf s \mathbf w^\top \circ \partial \mathbf K / \partial \mathbf r^2$: in scaled
inputs $\bar{\mathbf U} = 2 (\operatorname{diag}(\mathbf R \mathbf 1) \mathbf U -
\mathbf R \mathbf V)$, and a lengthscale needs $\mathbf R \mathbf V$ and the sums of rows and of
columns of R alone. Forwards that is one product of M x E by E x P matrices, backwards two. The
matrices of one input stay in the cache.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.kernels.base import AbstractKernel, Scaled, check_columns, not_negative
from cavity.kernels.stationary import AbstractStationary
from cavity.numerics.distances import scaled_distance
from cavity.numerics.types import Array, Float, PyTree

# Blocks of rows in which the covariances of the parts of an input are computed: those below the
# diagonal are those above it, so that of B² blocks B (B + 1) / 2 are needed.
BLOCKS = 4


@functools.singledispatch
def weighted_sums(
    kernel: AbstractKernel,
    Z: Float[Array, "M E"],
    parts: Float[Array, "P E"],
    weights: Float[Array, " P"],
) -> Float[Array, " M"]:
    r"""$\sum_p w_p k(\mathbf z_m, \mathbf x^{[p]})$ for every place."""
    return kernel.cross(Z, parts) @ weights


@weighted_sums.register
def _(
    kernel: AbstractStationary,
    Z: Float[Array, "M E"],
    parts: Float[Array, "P E"],
    weights: Float[Array, " P"],
) -> Float[Array, " M"]:
    if kernel.groups is not None:
        return kernel.cross(Z, parts) @ weights
    check_columns(Z, parts, lengthscale=kernel.lengthscale)
    return _sums((kernel, Z, parts, weights))


@weighted_sums.register
def _(
    kernel: Scaled,
    Z: Float[Array, "M E"],
    parts: Float[Array, "P E"],
    weights: Float[Array, " P"],
) -> Float[Array, " M"]:
    return kernel.factor * weighted_sums(kernel.kernel, Z, parts, weights)


def weighted_variance(
    kernel: AbstractKernel, parts: Float[Array, "P E"], weights: Float[Array, " P"]
) -> Float[Array, ""]:
    """The variance of a weighted sum of the values at the parts."""
    total = jnp.sum(weights**2 * kernel.diag(parts))
    step = -(-parts.shape[0] // BLOCKS)
    for start in range(0, parts.shape[0], step):
        rows, mine = parts[start : start + step], weights[start : start + step]
        beyond, others = parts[start + step :], weights[start + step :]
        own = kernel.cross(rows, rows)
        # the diagonal is that of `diag`, which has no rounding
        total = total + mine @ own @ mine - jnp.sum(mine**2 * jnp.diagonal(own))
        if beyond.shape[0]:
            total = total + 2.0 * mine @ weighted_sums(kernel, rows, beyond, others)
    return total


@eqx.filter_custom_vjp
def _sums(own: tuple[AbstractStationary, Array, Array, Array]) -> Float[Array, " M"]:
    kernel, Z, parts, weights = own
    r2 = _distances(*_scaled(kernel, Z, parts))
    return kernel.variance * (kernel.correlation(r2) @ weights)


@_sums.def_fwd
def _sums_forward(
    perturbed: PyTree, own: tuple[AbstractStationary, Array, Array, Array]
) -> tuple[Float[Array, " M"], None]:
    return _sums(own), None


@_sums.def_bwd
def _sums_backward(
    residuals: None,
    slope: Float[Array, " M"],
    perturbed: PyTree,
    own: tuple[AbstractStationary, Array, Array, Array],
) -> PyTree:
    kernel, Z, parts, weights = own
    U, V = _scaled(kernel, Z, parts)
    r2 = _distances(U, V)
    K, back = _with_slopes(kernel, perturbed[0], r2)
    kernel_slope, R = back(slope[:, None] * weights)
    of_columns = jnp.sum(R, axis=0)[:, None]
    scale = kernel.lengthscale
    U_slope = None
    if perturbed[1] is False and jnp.size(scale) == 1:
        # places that are held and one lengthscale: no matrix of M x E is needed
        stretch = -2.0 * jnp.sum(R * r2)
    else:
        ones = jnp.ones((V.shape[0], 1), V.dtype)
        moved = R @ jnp.concatenate([V, ones], axis=1)
        RV, of_rows = moved[:, :-1], moved[:, -1:]
        U_slope = 2.0 * (U * of_rows - RV)
        # Σ_p v̄ v, without the product that v̄ itself would need
        V_share = 2.0 * (jnp.sum(V**2 * of_columns, axis=0) - jnp.sum(U * RV, axis=0))
        stretch = -(jnp.sum(U_slope * U, axis=0) + V_share)
        U_slope = U_slope / scale
    kernel_slope = _with_stretch(kernel_slope, perturbed[0], stretch, scale)
    moves = perturbed[2] is not False
    V_slope = 2.0 * (V * of_columns - R.T @ U) / scale if moves else None
    return kernel_slope, U_slope, V_slope, K.T @ slope


def _scaled(kernel: AbstractStationary, Z: Array, parts: Array) -> tuple[Array, Array]:
    """Both inputs in units of the lengthscales, about the mean of the first."""
    centre = jnp.mean(Z, axis=0)
    return (Z - centre) / kernel.lengthscale, (parts - centre) / kernel.lengthscale


def _distances(U: Float[Array, "M E"], V: Float[Array, "P E"]) -> Float[Array, "M P"]:
    return not_negative(scaled_distance(U, V, jnp.ones((), U.dtype)))


def _with_slopes(
    kernel: AbstractStationary, perturbed: PyTree, r2: Float[Array, "M P"]
) -> tuple[Float[Array, "M P"], Callable[[Array], tuple[Any, Array]]]:
    """Covariances, and the pullback of their derivatives to parameters and distances."""
    moving, held = eqx.partition(kernel, perturbed)

    def covariances(moving: Any, r2: Array) -> Array:
        whole: AbstractStationary = eqx.combine(moving, held)
        return whole.variance * whole.correlation(r2)

    return jax.vjp(covariances, moving, r2)


def _with_stretch(slopes: Any, perturbed: Any, stretch: Array, scale: Array) -> Any:
    """The derivatives of the parameters with that of the lengthscales, by way of the inputs."""
    if perturbed.lengthscale is False:
        return slopes
    shared = jnp.size(scale) == 1
    total = jnp.reshape(jnp.sum(stretch), jnp.shape(scale)) if shared else stretch
    return eqx.tree_at(lambda k: k.lengthscale, slopes, total / scale)
