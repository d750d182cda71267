"""Where the search for states starts."""

import jax
import jax.numpy as jnp

from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import Links
from cavity.numerics.types import Array, Float, Scalar

# The largest deviation of a state that a search starts from, as a share of the states' own.
SHARE = 0.3
# Coordinates that vary less than this share of the largest variance are taken to vary so much.
LEAST = 1e-6


def affine_start(
    y: Float[Array, "T P"], weights: Float[Array, "P D"], noise: Scalar, links: Links
) -> tuple[Float[Array, "T D"], Float[Array, "D D"]]:
    """The states that affine emissions need for the outputs, and a covariance that all have.

    Args:
        y: outputs less the emission at zero, none of them missing.
        weights: of the emission.
        noise: the variance of the outputs' noise.
        links: how rows follow each other.
    """
    mean = y @ jnp.linalg.pinv(weights).T
    present = links.present[:, None]
    count = jnp.maximum(jnp.sum(present), 1.0)
    away = mean - jnp.sum(present * mean, axis=0) / count
    spread = jnp.sum(present * away**2, axis=0) / count
    spread = jnp.maximum(spread, LEAST * (jnp.max(spread) + noise))
    precision = weights.T @ weights / noise + jnp.diag(1.0 / (SHARE**2 * spread))
    return mean, jnp.linalg.inv(precision)


def interpolated(rows: Rows) -> Float[Array, "T P"]:
    """Outputs, linear in time between observed ones."""
    time = jnp.arange(rows.y.shape[0], dtype=rows.y.dtype)

    def one(y: Array, present: Array) -> Array:
        order = jnp.argsort(jnp.where(present > 0.0, time, time + len(time)))
        count = jnp.sum(present > 0.0).astype(int)
        last = order[jnp.maximum(count - 1, 0)]
        # rows that are not observed repeat the last that is
        places = jnp.where(jnp.arange(len(time)) < count, order, last)
        return jnp.interp(time, time[places], y[places])

    return jax.vmap(one, in_axes=1, out_axes=1)(rows.y, rows.site_presence)
