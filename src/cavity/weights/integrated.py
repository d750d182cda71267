"""Priors of weights with uncertain parameters."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.numerics.integrated_out import ParameterNodes
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Tilted
from cavity.numerics.tree import with_named
from cavity.numerics.types import Array, Float
from cavity.parameters.gaussian_scale import values_on
from cavity.weights.base import AbstractWeightPrior


class IntegratedPrior(AbstractWeightPrior):
    r"""A prior averaged over Gaussians of its parameters, on the scales where these are Gaussian.

    $$M_a(m, v)^a = \int M_a(m, v; z)^a\, \mathcal N(z; m_z, v_z)\, dz$$

    Attributes:
        prior: the prior; its values of these parameters do not count.
        names: dotted names of the parameters.
        kinds: the scale of each, as in `GaussianScales`.
        location: means of the parameters, one array for each.
        variance: their variances.

    References:
        Jylanki (2013), S91 to S95 and S103.
    """

    prior: AbstractWeightPrior
    names: tuple[str, ...] = eqx.field(static=True)
    kinds: tuple[str, ...] = eqx.field(static=True)
    location: tuple[Float[Array, "..."], ...]
    variance: tuple[Float[Array, "..."], ...]

    def given(self, z: Float[Array, "k ..."]) -> AbstractWeightPrior:
        """The prior given its parameters on their scales."""
        return with_named(self.prior, values_on(self.names, self.kinds, z))

    @property
    def nodes(self) -> ParameterNodes:
        """Nodes of the parameters."""
        return ParameterNodes.about(self.location, self.variance)

    def starting_variance(self) -> Array:
        return self.prior.starting_variance()

    def log_power_mean(self, mean: Array, var: Array, power: Power) -> Array:
        return self.nodes.log_power_mean(
            lambda z: self.given(z).log_power_mean(mean, var, power), power
        )

    def tilted(self, mean: Array, var: Array, power: Power) -> Tilted:
        return self.tilted_with_parameters(mean, var, power)[0]

    def tilted_with_parameters(
        self, mean: Array, var: Array, power: Power
    ) -> tuple[Tilted, tuple[Tilted, ...]]:
        """Derivatives in the mean of the weight, and in those of the parameters."""
        return self.nodes.tilted(lambda z: self.given(z).tilted(mean, var, power), power)

    def cdf(self, weight: Array, mean: Array, var: Array) -> Array:
        return self._averaged(lambda prior: prior.cdf(weight, mean, var), mean, var)

    def inclusion(self, mean: Array, var: Array) -> Array | None:
        if self.prior.inclusion(mean, var) is None:
            return None

        def prior_inclusion(prior: AbstractWeightPrior) -> Array:
            found = prior.inclusion(mean, var)
            assert found is not None
            return found

        return self._averaged(prior_inclusion, mean, var)

    def _averaged(
        self, value: Callable[[AbstractWeightPrior], Array], mean: Array, var: Array
    ) -> Array:
        """The mean of a function of the prior over the parameters given the weight's cavity."""
        nodes = self.nodes

        def node_value(z: Array) -> tuple[Array, Array]:
            prior = self.given(z)
            return prior.log_power_mean(mean, var, 1.0), value(prior)

        log_mean, values = jax.lax.map(node_value, nodes.nodes)
        return jnp.sum(nodes.posterior_share(log_mean) * values, axis=0)
