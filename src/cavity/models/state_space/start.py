"""Where the search for states starts."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import Links
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.means import AbstractMean
from cavity.models.latent.views import principal_components
from cavity.numerics.types import Array, Float

if TYPE_CHECKING:
    from cavity.models.state_space.gpssm import GPSSM

# The largest deviation of a state that a search starts from, as a share of the states' own.
SHARE = 0.3


def starting_states(
    model: "GPSSM", rows: Rows, links: Links
) -> tuple[Float[Array, "T D"], Float[Array, "D D"]]:
    """Means of states at which a search starts, and a covariance that all have.

    Those that affine emissions would need for the outputs, which are interpolated in time where
    they are missing; principal components where emissions are Gaussian processes or as likelihoods
    other than Gaussian have them.
    """
    size, emission = model.state_dims, model.emission
    y = interpolated(rows)
    noise = capability(model.likelihood, GaussianInLatent)
    if not isinstance(emission, AbstractMean) or noise is None:
        mean = principal_components(rows, size)
        return mean, SHARE**2 * jnp.eye(size, dtype=mean.dtype)
    zero = jnp.zeros(size, y.dtype)
    weights = jnp.reshape(jax.jacfwd(lambda x: emission(x[None])[0])(zero), (-1, size))
    offset = jnp.reshape(emission(zero[None])[0], -1)
    mean = (y - offset) @ jnp.linalg.pinv(weights).T
    present = links.present[:, None]
    count = jnp.maximum(jnp.sum(present), 1.0)
    away = mean - jnp.sum(present * mean, axis=0) / count
    spread = jnp.sum(present * away**2, axis=0) / count
    spread = jnp.maximum(spread, 1e-12 + 1e-6 * jnp.max(spread))
    variances = jnp.broadcast_to(jnp.mean(noise.noise_variance()), (len(weights),))
    precision = weights.T @ (weights / variances[:, None]) + jnp.diag(1.0 / (SHARE**2 * spread))
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
