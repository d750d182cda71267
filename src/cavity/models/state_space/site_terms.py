r"""Terms of transitions and outputs between states with sites and functions with cavities.

Given the cavity of two neighbouring states, $\mathbf x_t \mid \mathbf x_{t-1} \sim \mathcal N(
\mathbf c + \mathbf W \mathbf x_{t-1}, \mathbf H)$, and at the power a

$$\log M_a = \tfrac1a \log \mathbb E\, \mathcal N(\mathbf x_t; f(\mathbf x_{t-1}), \mathbf Q)^a$$

is an expectation over $\mathbf x_{t-1}$ of Gaussian integrals of the difference
$f(\mathbf x_{t-1}) - \mathbf W \mathbf x_{t-1} - \mathbf c$ with the covariance $\mathbf K$ that
functions and $\mathbf H$ add up to:

$$-\tfrac12 \log |2 \pi \mathbf Q| - \tfrac1{2a} \log |\mathbf I + a \mathbf Q^{-1} \mathbf K|
- \tfrac12 \mathbf r^\top (\mathbf Q + a \mathbf K)^{-1} \mathbf r.$$

References:
    Bui (2017), S41 with errata E14, E15, E17 and E27.
"""

from typing import ClassVar, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import AbstractLocalTerm, differentiated
from cavity.inference.graph.base import Latent
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.views import InducingView
from cavity.inference.propagation import AbstractPropagation, Spread
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.models.deep.layer import Layer, LayerProcess
from cavity.models.deep.term import latent_belief, terms_at
from cavity.models.state_space.joint_propagation import StateRows, differences
from cavity.numerics.linalg import cholesky_and_inverse
from cavity.numerics.power_limits import Power, log1p_ratio, log_determinant_ratio
from cavity.numerics.quadrature import Tilted, log_power_mean
from cavity.numerics.types import Array, Float


class Neighbours(NamedTuple):
    """Two neighbouring states: that before, and what the later one is given it.

    Attributes:
        mean: means of the state before.
        cov: its covariances.
        later: means of the later state.
        slopes: W.
        spread: H.
    """

    mean: Float[Array, "N D"]
    cov: Float[Array, "N D D"]
    later: Float[Array, "N D"]
    slopes: Float[Array, "N D D"]
    spread: Float[Array, "N D D"]


class TransitionTerm(AbstractLocalTerm):
    """The log power mean of the density of a state given the one before.

    Attributes:
        layer: the functions, with the noise of the transition.
        views: how rows see the inducing variables of each.
        propagation: how Gaussian states go through the functions.
    """

    layer: Layer
    views: tuple[InducingView, ...]
    propagation: AbstractPropagation

    joint: ClassVar[bool] = True

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        count = len(self.views)
        functions = _functions(self.layer, self.views, latents[:count])
        pair = _neighbours(latents[count:])
        states = StateRows(pair.mean, pair.cov, rows.x)
        off = differences(self.propagation, functions, states, pair.slopes)
        variance = cast(Array, self.layer.noise_variance)
        noise = jnp.broadcast_to(variance, pair.later.shape)
        residuals = off.mean - pair.later
        terms = gaussian_log_power_mean(residuals, off.cov + pair.spread, noise, power)
        weights = jnp.broadcast_to(off.log_weights[:, None], terms.shape)
        return log_power_mean(terms, weights, power)[:, None]

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        return differentiated(self.log_mean, latents, rows, power)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)


class EmissionTerm(AbstractLocalTerm):
    """The log power mean of a likelihood of functions of a state.

    Attributes:
        layer: the functions.
        views: how rows see the inducing variables of each.
        likelihood: the density of outputs.
        propagation: how Gaussian states go through the functions.
    """

    layer: Layer
    views: tuple[InducingView, ...]
    likelihood: AbstractLikelihood
    propagation: AbstractPropagation

    joint: ClassVar[bool] = True

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        *functions, state = latents
        layer = _functions(self.layer, self.views, tuple(functions))
        mean, cov = state.mean[:, 0], state.var[:, 0]
        states = StateRows(mean, cov, rows.x)
        flat = jnp.zeros((*rows.y.shape, mean.shape[1]), mean.dtype)
        off = differences(self.propagation, layer, states, flat)
        gaussian = capability(self.likelihood, GaussianInLatent)
        if gaussian is None:
            values = Spread(off.mean, jnp.diagonal(off.cov, axis1=-2, axis2=-1))
            terms = terms_at(self.likelihood, values, rows, power)
        else:
            noise = jnp.broadcast_to(gaussian.noise_variance(**rows.columns), rows.y.shape)
            present = rows.site_presence
            terms = gaussian_log_power_mean(off.mean - rows.y, off.cov, noise, power, present)
        weights = jnp.broadcast_to(off.log_weights[:, None], terms.shape)
        return log_power_mean(terms, weights, power)[:, None]

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        return differentiated(self.log_mean, latents, rows, power)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)


def gaussian_log_power_mean(
    residual: Float[Array, "K N P"],
    cov: Float[Array, "K N P P"],
    noise: Float[Array, "N P"],
    power: Power,
    present: Float[Array, "N P"] | None = None,
) -> Float[Array, "K N"]:
    r"""$\tfrac1a \log \mathbb E\, \mathcal N(\mathbf e; 0, \mathbf Q)^a$ of a Gaussian e.

    Args:
        residual: means of e.
        cov: covariances of e.
        noise: the diagonal of Q.
        power: a.
        present: 1 for the entries of e that count; None for all.
    """
    deviation = jnp.sqrt(noise)
    if present is not None:
        residual = present * residual
        cov = present[:, :, None] * cov * present[:, None, :]
    r = residual / deviation
    S = cov / (deviation[:, :, None] * deviation[:, None, :])
    constant = jnp.log(2.0 * jnp.pi * noise)
    constant = jnp.sum(constant if present is None else present * constant, axis=-1)
    if r.shape[-1] == 1:
        r, S = r[..., 0], S[..., 0, 0]
        return -0.5 * (constant + log1p_ratio(power, S) + r**2 / (1.0 + power * S))

    def one(r: Float[Array, " P"], S: Float[Array, "P P"]) -> Array:
        quadratic = r @ jnp.linalg.solve(jnp.eye(len(r), dtype=r.dtype) + power * S, r)
        return log_determinant_ratio(power, S) + quadratic

    return -0.5 * (constant + jax.vmap(jax.vmap(one))(r, S))


def _functions(
    layer: Layer, views: tuple[InducingView, ...], latents: tuple[Latent, ...]
) -> LayerProcess:
    """The functions of a layer under their cavities, without noise."""
    process = layer.process(views, [latent_belief(latent) for latent in latents])
    return eqx.tree_at(lambda p: p.noise_variance, process, None, is_leaf=lambda x: x is None)


def _neighbours(latents: tuple[Latent, ...]) -> Neighbours:
    """The states of a transition: of one pair, or of two states independent of each other."""
    if len(latents) == 2:
        before, now = ((latent.mean[:, 0], latent.var[:, 0]) for latent in latents)
        return Neighbours(*before, now[0], jnp.zeros_like(now[1]), now[1])
    (pair,) = latents
    mean, cov = pair.mean[:, 0], pair.var[:, 0]
    size = mean.shape[1] // 2
    _, root = jax.vmap(cholesky_and_inverse)(cov[:, :size, :size])
    half = root @ cov[:, :size, size:]
    across = jnp.swapaxes(half, 1, 2)
    spread = cov[:, size:, size:] - across @ half
    return Neighbours(mean[:, :size], cov[:, :size, :size], mean[:, size:], across @ root, spread)
