"""Latent inputs of the rows of a deep model at their prior, as a layer below all others."""

import equinox as eqx
import jax.numpy as jnp

from cavity.kernels.expectations import GaussianInputs
from cavity.numerics.types import Array, Float


class PriorInputs(eqx.Module):
    """Independent standard normal inputs of every row, independent of its known inputs.

    Attributes:
        width: their number.
    """

    width: int = eqx.field(static=True)

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n W"], Float[Array, "n W"]]:
        """Means and variances: zero and one."""
        zero = jnp.zeros((X.shape[0], self.width), X.dtype)
        return zero, zero + 1.0

    def moments_under(
        self, inputs: GaussianInputs
    ) -> tuple[Float[Array, "n W"], Float[Array, "n W"], Float[Array, "n W"]]:
        """Means, and both parts of the variances; the mean is the same everywhere."""
        mean, var = self.moments(inputs.mean)
        return mean, var, jnp.zeros_like(var)

    def with_inputs(self, values: Float[Array, "n D"], x: Float[Array, "n C"]) -> Array:
        """The known inputs, for the number of rows."""
        return values

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "W n n"]:
        """Covariances between rows, which are independent."""
        eye = jnp.eye(X.shape[0], dtype=X.dtype)
        return jnp.broadcast_to(eye, (self.width, *eye.shape))
