"""The term of a row of a network: its likelihood, where the output has moments through layers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import AbstractDifferentiatedTerm
from cavity.inference.graph.marginals import Latent
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, ScalarSites, masked
from cavity.inference.networks.activations import AbstractActivation
from cavity.inference.weights.whole_sites import WholeSites, lower
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
    units: UnitMoments, mean: Float[Array, "N P B"], cov: Float[Array, "N P B B"]
) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
    r"""Mean and variance of $\mathbf v^\top \mathbf g$ with independent v and g, for each of P v.

    References:
        Jylanki (2013), S99.
    """
    g, spread = units.mean[:, None], mean**2 + jnp.diagonal(cov, axis1=-2, axis2=-1)
    own = jnp.sum(g * jnp.einsum("npij,nj->npi", cov, units.mean), axis=-1)
    return jnp.sum(mean * g, axis=-1), own + jnp.sum(units.var[:, None] * spread, axis=-1)


def through_layers(
    activation: AbstractActivation,
    hidden: tuple[Float[Array, "N K"], Float[Array, "N K"]],
    above: Sequence[tuple[Float[Array, "..."], Float[Array, "..."]]],
) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
    """Mean and variance of the functions of the last layer.

    What enters the units of a layer counts as independent Gaussians.

    Args:
        activation: of all units.
        hidden: means and variances of what enters the units of the first layer.
        above: means (N, P, K + 1) and covariances of the weights of every further layer, from K
            units to P; the output's last.

    References:
        Jylanki (2013), S99 and S120.
    """
    mean, var = hidden
    for weights in above:
        mean, var = output_moments(unit_moments(activation, mean, var), *weights)
    return mean, var


def through_known_layers(
    activation: AbstractActivation,
    units: Float[Array, "... K"],
    above: Sequence[Float[Array, "..."]],
) -> Float[Array, "... P"]:
    """The functions of the last layer with known weights, from what the first units give.

    Args:
        activation: of the units of further layers.
        units: what the units of the first layer give.
        above: weights of every further layer, (K + 1, P), and of the output.
    """
    for number, weights in enumerate(above):
        units = activation(units) if number else units
        units = units @ weights[:-1] / units.shape[-1] ** 0.5 + weights[-1]
    return units


class NetworkTerm(AbstractDifferentiatedTerm):
    r"""$\log M_a$ of the likelihood at the moments of the network's output under the cavity.

    A row sees the inputs of its hidden units, the output weights, and perhaps a linear function.

    Attributes:
        likelihood: of one latent function, and of parameters that are integrated out, which rows
            see last.
        activation: of the hidden units.
        output: output weights that are known, (K + 1,), the bias last; None where they are a
            variable.
        inner: layers of units beyond the first, whose weights are variables that rows see after
            what enters the first; then come the output weights.

    References:
        Jylanki (2013), S89, S98 to S100 and S120.
    """

    likelihood: AbstractLikelihood
    activation: AbstractActivation
    output: Float[Array, " B"] | None = None
    inner: int = eqx.field(static=True, default=0)

    def stationary(self, power: Power) -> bool:
        return not self.likelihood.sampled(power)

    def moments(self, latents: tuple[Latent, ...]) -> tuple[Float[Array, "N 1"], Array]:
        """Mean and variance of the network's output."""
        hidden, count = latents[0], self.inner + (self.output is None)
        above: list[Any] = [(one.mean, one.var) for one in latents[1 : 1 + count]]
        rest = latents[1 + count :]
        if self.output is not None:
            shape = (hidden.mean.shape[0], 1, self.output.shape[0])
            known = jnp.broadcast_to(self.output, shape)
            above.append((known, jnp.zeros((*shape, shape[-1]), known.dtype)))
        mean, var = through_layers(self.activation, (hidden.mean, hidden.var), above)
        for other in rest:
            mean, var = mean + other.mean, var + other.var
        return mean, var

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        shared = self.likelihood.latents - 1
        mean, var = self.moments(latents[: len(latents) - shared])
        if shared:
            # parameters that are integrated out are one more latent value each
            others = latents[-shared:]
            mean = jnp.stack([mean, *(z.mean for z in others)])
            var = jnp.stack([var, *(z.var + z.residual for z in others)])
        return self.likelihood.log_power_mean(mean, var, rows.y, power, rows.columns)

    def _tilted(self, f: Array, width: Array, rows: Rows) -> Tilted:
        """Derivatives at known functions, with integrated parameters at their prior."""
        shared = self.likelihood.shared_priors
        if not shared:
            return self.likelihood.tilted(f, width, rows.y, 1.0, rows.columns)
        mean = self.likelihood.at_shared_means(f)
        var = jnp.stack([width, *(jnp.full_like(f, deviation**2) for _, deviation in shared)])
        found = self.likelihood.tilted(mean, var, rows.y, 1.0, rows.columns)
        return Tilted(found.log_mean, found.slope[0], found.curvature[0])

    def sites_at(
        self,
        hidden: Float[Array, "N K"],
        above: tuple[Float[Array, "..."], ...],
        linear: Float[Array, "N 1"] | None,
        rows: Rows,
    ) -> tuple[AbstractSites, ...]:
        """Sites of a row about known weights, by Gauss and Newton's approximation.

        At the mode of all weights their beliefs have the mode for their means.

        Args:
            hidden: what enters the units of the first layer.
            above: weights of every further layer, (K + 1, L), and of the output, (L + 1, 1), those
                of intercepts last.
            linear: the linear function at the rows, where there is one.
            rows: the rows.
        """

        def function(h: Array, weights: tuple[Array, ...]) -> Array:
            return through_known_layers(self.activation, self.activation(h), weights)[0]

        each = jax.vmap(jax.value_and_grad(function, argnums=(0, 1)), in_axes=(0, None))
        f, (by_hidden, by_weights) = each(hidden, above)
        f = f[:, None] if linear is None else f[:, None] + linear
        width = jnp.full_like(f, _NARROW) * (1.0 + jnp.mean(f**2))
        found = self._tilted(f, width, rows)
        bend = jnp.maximum(-found.curvature, 0.0)  # N x 1
        precision = bend * by_hidden**2
        sites: list[AbstractSites] = [
            ScalarSites(precision * hidden + found.slope * by_hidden, precision)
        ]
        variables = above if self.output is None else above[:-1]
        for weights, slopes in zip(variables, by_weights, strict=False):
            g = jnp.swapaxes(slopes, 1, 2)  # N x L x (K + 1)
            # of the precision b g gᵀ, times the weights, and its lower triangle
            shift = g * (bend[:, :, None] * jnp.einsum("npj,jp->np", g, weights)[..., None])
            row, column = lower(weights.shape[0])
            precision = bend[:, :, None] * g[..., row] * g[..., column]
            sites.append(WholeSites(shift + found.slope[:, :, None] * g, precision))
        if linear is not None:
            sites.append(ScalarSites(bend * linear + found.slope, bend))
        # cavities of absent rows must be proper too
        present = (masked(site, rows.observed) for site in sites)
        return jax.lax.stop_gradient(tuple(present))
