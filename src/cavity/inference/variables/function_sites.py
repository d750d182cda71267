"""Sites of every row on all inducing variables of functions: private Power EP.

A row whose input is Gaussian, or whose functions are those of several layers, has a site of full
rank on the inducing variables: for N rows, P functions and M inducing variables of each they hold
N P M² numbers.

References:
    Bui (2017), S41, S49 and S60.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractSiteView, Messages
from cavity.inference.graph.marginals import Latent, Marginal, Moments
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, BlockSites
from cavity.inference.variables.inducing import InducingBelief, WhitenedInducing
from cavity.numerics.types import Array, Float


class FunctionSitesView(AbstractSiteView[InducingBelief, WhitenedInducing]):
    """Every row sees all inducing variables of some functions, with a site on those of each.

    Attributes:
        outputs: the number of functions.
        size: inducing variables of each.
        start: sum of the messages of all sites at the start of a search; None for zero.
    """

    outputs: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    start: Messages | None = None

    scalar: ClassVar[bool] = False

    def presence(self, rows: Rows) -> Float[Array, "N P"]:
        present = jnp.max(rows.site_presence, axis=1, keepdims=True)
        return jnp.broadcast_to(present, (present.shape[0], self.outputs))

    def marginal(
        self, belief: InducingBelief, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        mean, cov = belief.dense()
        count = rows.y.shape[0]
        cov = jnp.broadcast_to(cov, (count, *cov.shape))
        return self.at((jnp.broadcast_to(mean, (count, *mean.shape)), cov), rows)

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        return Marginal.of_values(*moments)

    def empty_sites(self, rows: Rows) -> BlockSites:
        """Sites of precision zero, or equal shares of what a search starts from."""
        shape = (rows.y.shape[0], self.outputs, self.size)
        if self.start is None:
            zero = jnp.zeros(shape, rows.y.dtype)
            return BlockSites(zero, jnp.zeros((*shape, self.size), zero.dtype))
        present = self.presence(rows)[:, :, None]
        share = present / jnp.maximum(jnp.sum(present, axis=0), 1.0)
        shift = self.start.shift.reshape(self.outputs, self.size)
        replicas = self.outputs // self.start.precision.shape[0]
        precision = jnp.repeat(self.start.precision, replicas, axis=0)
        return BlockSites(share * shift, share[..., None] * precision)

    def messages(self, variable: WhitenedInducing, rows: Rows, sites: AbstractSites) -> Messages:
        shift, precision = jnp.sum(sites.shift, axis=0), jnp.sum(sites.precision, axis=0)
        return Messages(shift[:, None], precision, jnp.zeros((), shift.dtype))

    def without_site(
        self, belief: InducingBelief, rows: Rows, sites: AbstractSites
    ) -> tuple[Latent, Array]:
        marginal = self.marginal(belief, rows, sites)
        mean, var, proper = sites.cavity(*marginal.moments, 1.0)
        return marginal.latent(mean, var), proper
