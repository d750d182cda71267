"""Power means and tilted moments of a density of several latent values, by cubature."""

import dataclasses
import typing

import jax
import jax.numpy as jnp

from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import NONE, AbstractPredictive, Side
from cavity.likelihoods.predictive.tabulated import grid_predictive
from cavity.numerics import quadrature
from cavity.numerics.chunking import map_over_entries
from cavity.numerics.integrated_out import product_rule
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Measure, Tilted
from cavity.numerics.types import Array


@dataclasses.dataclass(frozen=True)
class CubatureSettings:
    """Settings of the product rule.

    Attributes:
        nodes: nodes of all latent functions together, about.
    """

    nodes: int = 1024


CUBATURE = CubatureSettings()


class AbstractCubatureLikelihood(AbstractLikelihood):
    r"""A density of several latent values; moments and predictions follow from it by cubature.

    Nodes are the product of even ones for each latent value, 32 each for two. They resolve a
    density that is at least half as wide in every latent value as the cavity.

    To implement:
        `support`, `latent_functions` and `log_prob(f, y)`, where f has the latent values along a
        first axis. `sample` and `initial_latents` are as in `AbstractQuadratureLikelihood`;
        `initial_latents` is of the first function, others start at `LatentFunction.start`.
    """

    @typing.final
    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        nodes, log_weight = product_rule(tuple(mean), tuple(var), _each(len(mean)))
        value = self.log_prob(jnp.stack(nodes), y, **side)
        return quadrature.log_power_mean(value, log_weight, power)

    @typing.final
    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        def chunk_moments(rows: tuple) -> Tilted:
            means, variances, y, side, powers = rows
            nodes, log_weight = product_rule(means, variances, _each(len(means)))
            value = self.log_prob(jnp.stack(nodes), y, **side)
            exponent = powers.get("power", power)
            moments = [
                quadrature.tilted_moments(value, Measure(f, log_weight), m, v, exponent)
                for f, m, v in zip(nodes, means, variances, strict=True)
            ]
            return Tilted(
                moments[0].log_mean,
                jnp.stack([of_latent.slope for of_latent in moments], axis=-1),
                jnp.stack([of_latent.curvature for of_latent in moments], axis=-1),
            )

        powers = {"power": power} if jnp.ndim(power) else {}
        rows = (tuple(mean), tuple(var), y, dict(side), powers)
        shape = jnp.broadcast_shapes(mean.shape[1:], var.shape[1:], jnp.shape(y))
        rows = jax.tree.map(lambda x: jnp.broadcast_to(x, shape), rows)
        log_mean, slope, curvature = map_over_entries(chunk_moments, rows)
        return Tilted(log_mean, jnp.moveaxis(slope, -1, 0), jnp.moveaxis(curvature, -1, 0))

    @typing.final
    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> AbstractPredictive:
        return grid_predictive(self, mean, var, side)


def _each(latents: int) -> int:
    """The number of nodes of each latent value."""
    return int(CUBATURE.nodes ** (1.0 / latents))
