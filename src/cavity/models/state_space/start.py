"""Initial states of a search."""

import jax
import jax.numpy as jnp

from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import Links
from cavity.numerics.types import Array, Float, Scalar

# The largest deviation of a state that a search starts from, as a share of the states' own.
STATE_SHARE = 0.3
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
    precision = weights.T @ weights / noise + jnp.diag(1.0 / (STATE_SHARE**2 * spread))
    return mean, jnp.linalg.inv(precision)


def interpolated(rows: Rows, links: Links) -> Float[Array, "T P"]:
    """Outputs, linear in time between observed ones of their series.

    Before the first and after the last they stand at these; in a series without any at the mean
    of all.

    Args:
        rows: the data.
        links: how rows follow each other.
    """
    count = rows.y.shape[0]
    time = jnp.arange(count)
    # rows at which series begin, and last rows of series; padding is a series of its own
    begins = jax.lax.cummax(jnp.where(links.linked > 0.0, 0, time))
    ends = jnp.append(jnp.where(links.linked[1:] > 0.0, count, time[:-1]), count - 1)
    ends = jax.lax.cummin(ends, reverse=True)

    def one(y: Array, present: Array) -> Array:
        seen = present > 0.0
        before = jax.lax.cummax(jnp.where(seen, time, -1))
        after = jax.lax.cummin(jnp.where(seen, time, count), reverse=True)
        has_before, has_after = before >= begins, after <= ends
        low, high = jnp.where(has_before, before, after), jnp.where(has_after, after, before)
        low, high = jnp.clip(low, 0, count - 1), jnp.clip(high, 0, count - 1)
        share = (time - low) / jnp.maximum(high - low, 1)
        mean = jnp.sum(present * jnp.where(seen, y, 0.0)) / jnp.maximum(jnp.sum(present), 1.0)
        between = y[low] + share * (y[high] - y[low])
        return jnp.where(has_before | has_after, between, mean)

    return jax.vmap(one, in_axes=1, out_axes=1)(rows.y, rows.site_presence)
