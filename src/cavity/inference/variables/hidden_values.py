"""Hidden values of rows between layers, whose conditional is the model's own times a site."""

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractBelief
from cavity.numerics.types import Array, Float, Scalar


class HiddenSites(eqx.Module):
    r"""A site on every hidden value of every row, as numbers that an optimiser moves.

    In units of the noise variance $s^2$ of its layer, so that no value of them is improper and
    zeros are the model's own conditional.

    Attributes:
        shift: $s \nu$.
        log_width: $\log (1 + s^2 \tau)$.
    """

    shift: Float[Array, "N H"]
    log_width: Float[Array, "N H"]

    def belief(self) -> "SitedConditional":
        """The conditional itself, whose terms of the energy come with the rows."""
        return SitedConditional(self.shift, self.log_width, jnp.zeros((), self.shift.dtype))


class SitedConditional(AbstractBelief):
    """The conditional of hidden values given their functions.

    Attributes:
        shift: as of the sites.
        log_width: as of the sites.
        log_normaliser: zero; the ratio to the model's own conditional is in the terms of rows.
    """

    shift: Float[Array, "N H"]
    log_width: Float[Array, "N H"]
    log_normaliser: Scalar
