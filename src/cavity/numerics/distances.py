"""Squared distances between inputs, and their derivatives."""

import functools

import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, Float


@jax.custom_jvp
def scaled_distance(
    X: Float[Array, "N D"], Z: Float[Array, "M D"], lengthscale: Float[Array, "..."]
) -> Float[Array, "N M"]:
    r"""Squared scaled distances, up to rounding, which may make small ones negative.

    Where X moves and Z does not the tangent is one product: a derivative backwards reads the
    matrix once.
    """
    U, V = X / lengthscale, Z / lengthscale
    # |u - v|² = |u|² + |v|² - 2 uᵀv; as one product with ones beside u and v it would be quicker,
    # but equal inputs would be apart by rounding, which small noise does not forgive
    return jnp.sum(U**2, axis=1)[:, None] + (jnp.sum(V**2, axis=1)[None, :] - (2.0 * U) @ V.T)


@functools.partial(scaled_distance.defjvp, symbolic_zeros=True)
def _scaled_distance_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    r"""The tangent; where X moves and Z does not, as one product of what moves and what not.

    $2 \mathbf u^\top \dot{\mathbf u} - 2 \mathbf v^\top \dot{\mathbf u} -
    2 \sum_d (\dot\ell_d / \ell_d) (u_d - v_d)^2$ is linear in $(1, \mathbf v, \mathbf v^2)$. So a
    derivative backwards reads the matrix of slopes once, where sums by row, by column and products
    with either side would each read it again. It has fewer digits where lengthscales are far
    below the spread of inputs, so it is not for covariances of data among themselves.
    """
    X, Z, lengthscale = primals
    U, V = X / lengthscale, Z / lengthscale
    moved, moved_z, stretch = (
        None if _still(tangent) else tangent / lengthscale for tangent in tangents
    )
    value = scaled_distance(X, Z, lengthscale)
    if moved is not None and moved_z is None:
        stretch = 0.0 * lengthscale if stretch is None else -2.0 * stretch
        constant = jnp.sum(2.0 * U * moved + stretch * U**2, axis=1)[:, None]
        square = jnp.broadcast_to(stretch, U.shape)
        left = jnp.concatenate([constant, -2.0 * (moved + stretch * U), square], axis=1)
        right = jnp.concatenate([jnp.ones_like(V[:, :1]), V, V**2], axis=1)
        return value, left @ right.T
    if stretch is not None and moved is None and moved_z is None and lengthscale.size == 1:
        return value, -2.0 * jnp.reshape(stretch, ()) * value
    if stretch is not None:
        moved = (0.0 if moved is None else moved) - stretch * U
        moved_z = (0.0 if moved_z is None else moved_z) - stretch * V
    tangent = jnp.zeros_like(value)
    if moved is not None:
        tangent = tangent + 2.0 * (jnp.sum(U * moved, axis=1)[:, None] - moved @ V.T)
    if moved_z is not None:
        tangent = tangent + 2.0 * (jnp.sum(V * moved_z, axis=1)[None, :] - U @ moved_z.T)
    return value, tangent


def _still(tangent: object) -> bool:
    """True if derivatives in an argument are not wanted."""
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)
