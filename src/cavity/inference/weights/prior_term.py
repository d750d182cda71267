"""The terms of priors: the density of a weight in the place of a likelihood."""

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import AbstractLocalTerm
from cavity.inference.graph.marginals import Latent, Natural
from cavity.inference.graph.rows import Rows
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Tilted
from cavity.numerics.types import Array, Float
from cavity.weights.base import AbstractScaleMixture, AbstractWeightPrior, weight_by_weight
from cavity.weights.blocks import Cavities, block_log_integral, block_match, log_partition
from cavity.weights.integrated import IntegratedPrior


class PriorTerm(AbstractLocalTerm):
    r"""$\log M_a$ of a prior's density under the cavity of a weight.

    Attributes:
        prior: the prior, with parameters for every weight.
    """

    prior: AbstractWeightPrior

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        mean, var, residual = latents[0]
        return weight_by_weight(
            lambda prior, m, v: prior.log_power_mean(m, v, power),
            self.seen_by(latents),
            mean,
            var + residual,
        )

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        mean, var, residual = latents[0]
        found = weight_by_weight(
            lambda prior, m, v: prior.tilted(m, v, power),
            self.seen_by(latents),
            mean,
            var + residual,
        )
        return (found,)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)

    def seen_by(self, latents: tuple[Latent, ...]) -> AbstractWeightPrior:
        """The prior at the cavities of its parameters, where these are latent values."""
        return self.prior


class BlockPriorTerm(AbstractLocalTerm):
    """The integral of a prior whose scale the weights of a block share, times their cavity.

    It goes with `WeightBlockSites`: what rows see are shifts and precisions of cavities, and what
    sites are matched to are shifts and precisions beyond those of the cavities.

    Attributes:
        prior: the prior, with parameters for every block.
        present: 1 where a block has a weight, 0 in its empty places.
    """

    prior: AbstractScaleMixture
    present: Float[Array, "B W"]

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Natural, ...], rows: Rows, power: Power) -> Array:
        return block_log_integral(self.prior, self._cavities(latents))

    def derivatives(
        self, latents: tuple[Natural, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        return (Tilted(*block_match(self.prior, self._cavities(latents))),)

    def log_density(self, latents: tuple[Natural, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0) - log_partition(self._cavities(latents))

    def _cavities(self, latents: tuple[Natural, ...]) -> Cavities:
        shift, precision = latents[0]
        return Cavities(precision, shift, self.present)


class IntegratedPriorTerm(PriorTerm):
    r"""The same where parameters of the prior are latent values, on edges after the weight's.

    Attributes:
        names: dotted names of these parameters, in the order of their edges.
        kinds: the scale of each, as in `cavity.parameters.gaussian_scale`.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    kinds: tuple[str, ...] = eqx.field(static=True)

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        mean, var, residual = latents[0]

        def tilted_weights(prior: IntegratedPrior, m: Array, v: Array) -> tuple[Tilted, ...]:
            own, others = prior.tilted_with_parameters(m, v, power)
            return (own, *others)

        return weight_by_weight(tilted_weights, self.seen_by(latents), mean, var + residual)

    def seen_by(self, latents: tuple[Latent, ...]) -> IntegratedPrior:
        shape = latents[0].mean.shape
        location = tuple(jnp.broadcast_to(each.mean, shape) for each in latents[1:])
        variance = tuple(jnp.broadcast_to(each.var + each.residual, shape) for each in latents[1:])
        return IntegratedPrior(self.prior, self.names, self.kinds, location, variance)
