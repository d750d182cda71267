"""The term of a prior: the density of a weight in the place of a likelihood."""

from cavity.inference.approximations.local_terms import AbstractLocalTerm
from cavity.inference.graph.base import Latent
from cavity.inference.graph.rows import Rows
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Tilted
from cavity.numerics.types import Array
from cavity.weights.base import AbstractWeightPrior, weight_by_weight


class PriorTerm(AbstractLocalTerm):
    r"""$\log M_a$ of a prior's density under the cavity of a weight.

    Attributes:
        prior: the prior, with parameters for every weight.
    """

    prior: AbstractWeightPrior

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        ((mean, var, residual),) = latents
        return weight_by_weight(
            lambda prior, m, v: prior.log_power_mean(m, v, power), self.prior, mean, var + residual
        )

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        ((mean, var, residual),) = latents
        found = weight_by_weight(
            lambda prior, m, v: prior.tilted(m, v, power), self.prior, mean, var + residual
        )
        return (found,)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)
