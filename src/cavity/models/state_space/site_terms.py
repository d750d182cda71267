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
    Bui (2017), S41 and S42 with errata E14, E15, E17 and E27.
"""

import typing
from typing import ClassVar, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import AbstractDifferentiatedTerm
from cavity.inference.graph.marginals import Latent
from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import AbstractPropagation, Spread
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.models.deep.layer import Layer, LayerProcess
from cavity.models.deep.term import AbstractFunctionTerm, Beliefs, terms_at
from cavity.models.state_space.joint_propagation import (
    Differences,
    StateRows,
    differences,
    state_nodes,
)
from cavity.numerics.linalg import cholesky_and_inverse
from cavity.numerics.power_limits import (
    Power,
    is_exactly,
    log1p_ratio,
    log_determinant_ratio,
)
from cavity.numerics.quadrature import log_power_mean
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


class AbstractStateTerm(AbstractFunctionTerm):
    """Terms of functions and of states.

    To implement:
        the fields and `terms(functions, others, rows, power)`, where the others are states.

    Attributes:
        layer: the functions.
        views: how rows see the inducing variables of each.
    """

    layer: eqx.AbstractVar[Layer]
    views: eqx.AbstractVar[tuple[InducingView, ...]]

    @property
    @typing.final
    def count(self) -> int:
        return len(self.views)

    def process(self, functions: Beliefs) -> LayerProcess:
        """The functions under one cavity, without noise."""
        return self.layer.process(self.views, functions).without_noise()


class TransitionTerm(AbstractStateTerm):
    """The log power mean of the density of a state given the one before.

    Attributes:
        layer: the functions, with the noise of the transition.
        views: how rows see the inducing variables of each.
        propagation: how Gaussian states go through the functions.
    """

    layer: Layer
    views: tuple[InducingView, ...]
    propagation: AbstractPropagation

    def terms(
        self, functions: Beliefs, others: tuple[Latent, ...], rows: Rows, power: Power
    ) -> Float[Array, " N"]:
        pair = _neighbours(others)
        before = StateRows(pair.mean, pair.cov, rows.x)
        off = differences(self.propagation, self.process(functions), before, pair.slopes)
        variance = cast(Array, self.layer.noise_variance)
        noise = jnp.broadcast_to(variance, pair.later.shape)
        residuals = off.mean - pair.later
        each = gaussian_log_power_mean(residuals, off.cov + pair.spread, noise, power)
        weights = jnp.broadcast_to(off.log_weights[:, None], each.shape)
        return log_power_mean(each, weights, power)


class EmissionTerm(AbstractStateTerm):
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

    def terms(
        self, functions: Beliefs, others: tuple[Latent, ...], rows: Rows, power: Power
    ) -> Float[Array, " N"]:
        (state,) = others
        mean, cov = state.mean[:, 0], state.var[:, 0]
        flat = jnp.zeros((*rows.y.shape, mean.shape[1]), mean.dtype)
        at = StateRows(mean, cov, rows.x)
        off = differences(self.propagation, self.process(functions), at, flat)
        return output_terms(self.likelihood, off, rows, power)


class AffineTerm(AbstractDifferentiatedTerm):
    """The log power mean of a likelihood of affine functions of a state.

    With Gaussian noise it is exact. So it is for one output, and at power 0, where functions count
    one at a time; others need nodes to have the functions' covariances.

    Attributes:
        mean: the functions.
        likelihood: the density of outputs.
        propagation: how a Gaussian state goes through functions.
    """

    mean: OutputMean
    likelihood: AbstractLikelihood
    propagation: AbstractPropagation

    joint: ClassVar[bool] = True

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        (state,) = latents
        mean, cov = state.mean[:, 0], state.var[:, 0]
        slopes = jax.jacfwd(lambda x: self.mean(x[None])[0])(jnp.zeros_like(mean[0]))
        gaussian = capability(self.likelihood, GaussianInLatent) is not None
        apart = len(slopes) == 1 or is_exactly(power, 0.0)
        if not (gaussian or apart or self.propagation.repeats == 1):
            return self._at_nodes(mean, cov, rows, power)[:, None]
        spread, weight = (slopes @ cov @ slopes.T)[None], jnp.zeros(1, mean.dtype)
        functions = Differences(self.mean(mean)[None], spread, weight)
        return output_terms(self.likelihood, functions, rows, power)[:, None]

    def _at_nodes(
        self, mean: Float[Array, "N D"], cov: Float[Array, "N D D"], rows: Rows, power: Power
    ) -> Float[Array, " N"]:
        """The term by nodes for the state, at which all functions are known."""
        z, log_weights = state_nodes(mean.shape[1], self.propagation.repeats)
        away = jnp.einsum("nij,kj->kni", jnp.linalg.cholesky(cov), jnp.asarray(z))
        functions = jax.vmap(self.mean)(mean + away)
        density = self.likelihood.log_prob(functions, rows.y, **rows.columns)
        each = jnp.sum(jnp.where(rows.site_presence > 0.0, density, 0.0), axis=2)
        weights = jnp.broadcast_to(log_weights[:, None], each.shape)
        return log_power_mean(each, weights, power)


def output_terms(
    likelihood: AbstractLikelihood, functions: Differences, rows: Rows, power: Power
) -> Float[Array, " N"]:
    """The log power means of the outputs of rows, whose functions are weighted Gaussians.

    Args:
        likelihood: the density of outputs.
        functions: the Gaussians.
        rows: the outputs.
        power: the power.
    """
    gaussian = capability(likelihood, GaussianInLatent)
    if gaussian is None:
        values = Spread(functions.mean, jnp.diagonal(functions.cov, axis1=-2, axis2=-1))
        each = terms_at(likelihood, values, rows, power)
    else:
        noise = jnp.broadcast_to(gaussian.noise_variance(**rows.columns), rows.y.shape)
        off, present = functions.mean - rows.y, rows.site_presence
        each = gaussian_log_power_mean(off, functions.cov, noise, power, present)
    weights = jnp.broadcast_to(functions.log_weights[:, None], each.shape)
    return log_power_mean(each, weights, power)


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
