"""The term of a row of a network: its likelihood, where the output has moments through layers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import AbstractLocalTerm, differentiated
from cavity.inference.graph.base import Latent
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, BlockSites, ScalarSites, masked
from cavity.inference.networks.activations import AbstractActivation
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Tilted
from cavity.numerics.types import Array, Float

# Variance of the output that counts as none, where sites are found from known weights.
_NARROW = 1e-6


class UnitMoments(NamedTuple):
    """Moments of what the units of a row give: the last entry is that of the bias.

    Attributes:
        mean: means, $m_g$.
        var: variances, the diagonal of $V_g$.
    """

    mean: Float[Array, "N B"]
    var: Float[Array, "N B"]


def unit_moments(
    activation: AbstractActivation, mean: Float[Array, "N K"], var: Float[Array, "N K"]
) -> UnitMoments:
    r"""Moments of $(g(h_1), \dots, g(h_K)) / \sqrt K$ and of a one for the bias."""
    count = mean.shape[1]
    one = jnp.ones_like(mean[:, :1])
    means = activation.mean(mean, var) / count**0.5
    variances = activation.variance(mean, var) / count
    return UnitMoments(
        jnp.concatenate([means, one], axis=1), jnp.concatenate([variances, 0.0 * one], axis=1)
    )


def output_moments(
    units: UnitMoments, mean: Float[Array, "N B"], cov: Float[Array, "N B B"]
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    r"""Mean and variance of $\mathbf v^\top \mathbf g$ with independent v and g.

    References:
        Jylanki (2013), S99.
    """
    f = jnp.sum(mean * units.mean, axis=1)
    own = jnp.sum(units.mean * jnp.einsum("nij,nj->ni", cov, units.mean), axis=1)
    spread = mean**2 + jnp.diagonal(cov, axis1=-2, axis2=-1)
    return f, own + jnp.sum(units.var * spread, axis=1)


class NetworkTerm(AbstractLocalTerm):
    r"""$\log M_a$ of the likelihood at the moments of the network's output under the cavity.

    A row sees the inputs of its hidden units, the output weights, and perhaps a linear function.

    Attributes:
        likelihood: of one latent function.
        activation: of the hidden units.
        output: output weights that are known, (K + 1,), the bias last; None where they are a
            variable, the second that rows see.

    References:
        Jylanki (2013), S89 and S98 to S100.
    """

    likelihood: AbstractLikelihood
    activation: AbstractActivation
    output: Float[Array, " B"] | None = None

    def stationary(self, power: Power) -> bool:
        return not self.likelihood.sampled(power)

    def moments(self, latents: tuple[Latent, ...]) -> tuple[Float[Array, "N 1"], Array]:
        """Mean and variance of the network's output."""
        hidden, rest = latents[0], latents[1:]
        units = unit_moments(self.activation, hidden.mean, hidden.var)
        if self.output is None:
            own, rest = rest[0], rest[1:]
            mean, var = output_moments(units, own.mean[:, 0], own.var[:, 0])
        else:
            known = jnp.broadcast_to(self.output, units.mean.shape)
            mean, var = output_moments(units, known, jnp.zeros((*known.shape, known.shape[1])))
        mean, var = mean[:, None], var[:, None]
        for other in rest:
            mean, var = mean + other.mean, var + other.var
        return mean, var

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        mean, var = self.moments(latents)
        return self.likelihood.log_power_mean(mean, var, rows.y, power, rows.columns)

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        return differentiated(self.log_mean, latents, rows, power)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)

    def sites_at(
        self,
        hidden: Float[Array, "N K"],
        output: Float[Array, " B"],
        linear: Float[Array, "N 1"] | None,
        rows: Rows,
    ) -> tuple[AbstractSites, ...]:
        """Sites of a row about known weights, by Gauss and Newton's approximation.

        At the mode of all weights their beliefs have the mode for their means.

        Args:
            hidden: what enters the units.
            output: the output weights, the bias last.
            linear: the linear function at the rows, where there is one.
            rows: the rows.
        """
        count = hidden.shape[1]
        value, slope = jax.jvp(self.activation, (hidden,), (jnp.ones_like(hidden),))
        g = jnp.concatenate([value / count**0.5, jnp.ones_like(value[:, :1])], axis=1)
        f = (g @ output)[:, None]
        f = f if linear is None else f + linear
        width = jnp.full_like(f, _NARROW) * (1.0 + jnp.mean(f**2))
        found = self.likelihood.tilted(f, width, rows.y, 1.0, rows.columns)
        bend = jnp.maximum(-found.curvature, 0.0)  # N x 1
        by_hidden = output[:-1] * slope / count**0.5
        precision = bend * by_hidden**2
        sites: list[AbstractSites] = [
            ScalarSites(precision * hidden + found.slope * by_hidden, precision)
        ]
        if self.output is None:
            P = bend[:, :, None] * g[:, :, None] * g[:, None, :]
            shift = P @ output + found.slope * g
            sites.append(BlockSites(shift[:, None], P[:, None]))
        if linear is not None:
            sites.append(ScalarSites(bend * linear + found.slope, bend))
        # cavities of absent rows must be proper too
        present = (masked(site, rows.site_presence) for site in sites)
        return jax.lax.stop_gradient(tuple(present))
