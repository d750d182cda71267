"""Squared distances between inputs, with derivatives that read the matrix once."""

import functools

import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, Float


@jax.custom_jvp
def scaled_distance(
    X: Float[Array, "N D"], Z: Float[Array, "M D"], lengthscale: Float[Array, " D"]
) -> Float[Array, "N M"]:
    r"""Squared scaled distances, up to rounding, which may make small ones negative.

    Its tangents are one product as well, so that a derivative backwards reads the matrix once.
    """
    U, V = X / lengthscale, Z / lengthscale
    # |u - v|² = |u|² + |v|² - 2 uᵀv, all of it by the product: sums afterwards read it again
    left = jnp.concatenate([jnp.sum(U**2, axis=1)[:, None], _ones(U), -2.0 * U], axis=1)
    right = jnp.concatenate([_ones(V), jnp.sum(V**2, axis=1)[:, None], V], axis=1)
    return left @ right.T


def _ones(X: Float[Array, "N D"]) -> Float[Array, "N 1"]:
    return jnp.ones((X.shape[0], 1), X.dtype)


@functools.partial(scaled_distance.defjvp, symbolic_zeros=True)
def _scaled_distance_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    r"""The tangent as one product of what moves with what does not.

    $2 \mathbf u^\top \dot{\mathbf u} - 2 \mathbf v^\top \dot{\mathbf u} -
    2 \sum_d (\dot\ell_d / \ell_d) (u_d - v_d)^2$ is linear in $(1, \mathbf v, \mathbf v^2)$. So a
    derivative backwards reads the matrix of slopes once, where sums by row, by column and products
    with either side would each read it again.
    """
    X, Z, lengthscale = primals
    moved, moved_z, moved_scale = tangents
    U, V = X / lengthscale, Z / lengthscale
    dU = 0.0 * U if _still(moved) else moved / lengthscale
    stretch = 0.0 * lengthscale if _still(moved_scale) else -2.0 * moved_scale / lengthscale
    constant = jnp.sum(2.0 * U * dU + stretch * U**2, axis=1)
    linear = -2.0 * (dU + stretch * U)
    square = jnp.broadcast_to(stretch, U.shape)
    left = jnp.concatenate([constant[:, None], linear, square], axis=1)
    tangent = left @ jnp.concatenate([_ones(V), V, V**2], axis=1).T
    if not _still(moved_z):
        dV = moved_z / lengthscale
        tangent = tangent + 2.0 * (jnp.sum(V * dV, axis=1)[None, :] - U @ dV.T)
    return scaled_distance(X, Z, lengthscale), tangent


def _still(tangent: object) -> bool:
    """Whether derivatives in an argument are not wanted."""
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)
