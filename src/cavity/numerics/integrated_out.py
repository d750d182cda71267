r"""Power means with parameters integrated out.

A parameter of a term is held, learned, or one more latent value z of the rows. With a Gaussian
cavity of z the power mean is $M_a^a = \mathbb E_z[M_a(z)^a]$, and nodes of z give it and all its
derivatives: in the means of the other latent values by `mixed_derivatives`, in that of z by the
moments of the tilted nodes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.numerics import quadrature
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Measure, Tilted
from cavity.numerics.types import Array, Float

# Nodes of each parameter: of one alone, and of each of two.
NODES = {1: 40, 2: 24}


class ParameterNodes(NamedTuple):
    """Nodes of k parameters, and log weights that stand for their Gaussians.

    Attributes:
        nodes: values of the parameters.
        log_weight: log weights.
        mean: means of the Gaussians.
        var: their variances.
    """

    nodes: Float[Array, "S k ..."]
    log_weight: Float[Array, "S ..."]
    mean: Sequence[Array]
    var: Sequence[Array]

    @classmethod
    def about(cls, mean: Sequence[Array], var: Sequence[Array]) -> "ParameterNodes":
        """Nodes of independent Gaussians."""
        nodes, log_weight = product_rule(tuple(mean), tuple(var), NODES[len(mean)])
        return cls(jnp.stack(nodes, axis=1), log_weight, mean, var)

    def log_power_mean(self, given: Callable[[Array], Array], power: Power) -> Array:
        """The log power mean from that given the parameters."""
        return quadrature.log_power_mean(jax.lax.map(given, self.nodes), self.log_weight, power)

    def tilted(
        self, given: Callable[[Array], Tilted], power: Power
    ) -> tuple[Tilted, tuple[Tilted, ...]]:
        """Derivatives in the means of other latent values, and of each parameter.

        Args:
            given: value and derivatives given the parameters; of several other latent values,
                derivatives have them along a first axis.
            power: a.
        """
        value, slopes, curvatures = jax.lax.map(given, self.nodes)
        share = jax.nn.softmax(power * value + self.log_weight, axis=0)
        if slopes.ndim > value.ndim:
            share = share[:, None]
        found = quadrature.mixed_derivatives(share, slopes, curvatures, power)
        moments = enumerate(zip(self.mean, self.var, strict=True))
        of_parameters = tuple(
            quadrature.tilted_moments(
                value, Measure(self.nodes[:, i], self.log_weight), *own, power
            )
            for i, own in moments
        )
        return Tilted(of_parameters[0].log_mean, *found), of_parameters

    def posterior_share(self, value: Float[Array, "S ..."]) -> Float[Array, "S ..."]:
        """The share of each node where the term given the parameters has these logs."""
        return jax.nn.softmax(value + self.log_weight, axis=0)


def product_rule(
    means: tuple[Array, ...], variances: tuple[Array, ...], count: int
) -> tuple[list[Float[Array, "S ..."]], Float[Array, "S ..."]]:
    """Nodes of each latent value, and log weights of the product of their Gaussians.

    Args:
        means: means of the latent values, which are independent.
        variances: their variances.
        count: the number of nodes of each.
    """
    latents = len(means)
    shape = jnp.broadcast_shapes(*(m.shape for m in (*means, *variances)))
    nodes, log_weights = [], []
    for axis, (mean, var) in enumerate(zip(means, variances, strict=True)):
        m, v = jnp.broadcast_to(mean, shape), jnp.broadcast_to(var, shape)
        measure, _ = quadrature.even_measure(m, v, m, jnp.sqrt(v), count)
        own_axis = [count if i == axis else 1 for i in range(latents)]

        def spread(x: Array, own_axis: list[int] = own_axis) -> Array:
            grid = x.reshape(*own_axis, *shape)
            return jnp.broadcast_to(grid, (*(count,) * latents, *shape)).reshape(-1, *shape)

        nodes.append(spread(measure.nodes))
        log_weights.append(spread(measure.log_weight))
    return nodes, sum(log_weights[1:], log_weights[0])
