r"""The term of a row of a deep Gaussian process: one power mean through all layers.

The posterior keeps hidden values at the model's own conditional, so that the whole row is one
factor of the inducing variables of every layer:

$$\log M_a = \tfrac1a \log \mathbb E_{\text{cavities}}\Big[\prod_p p(y_p \mid f_p)^a\Big]$$

where f is the output of the last layer after propagation through those below.

References:
    Bui (2017), S59, S60, S62.
"""

from typing import ClassVar, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.local_terms import AbstractLocalTerm, differentiated
from cavity.inference.factors.tied import TiedCavity
from cavity.inference.graph.base import (
    AbstractView,
    Latent,
    Marginal,
    Moments,
)
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.graph.views import InducingView
from cavity.inference.hidden_sites import propagate_sited
from cavity.inference.propagation import AbstractPropagation, Spread, propagate
from cavity.inference.variables.inducing import InducingBelief
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.deep.layer import Layer, LayerProcess
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Tilted, log_power_mean
from cavity.numerics.types import Array, Float, Scalar


class WholeView(AbstractView[TiedCavity]):
    """Every row sees all of a variable: its mean, and a root of its covariance."""

    scalar: ClassVar[bool] = False

    def presence(self, rows: Rows) -> Array:
        return jnp.max(rows.site_presence, axis=1, keepdims=True)

    def marginal(
        self, belief: TiedCavity, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        return self.at((belief.mean, belief.root), rows)

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        zero = jnp.zeros((), moments[0].dtype)
        return Marginal(*moments, zero, zero)


class DeepTerm(AbstractLocalTerm):
    """The log power mean of a likelihood at the end of layers.

    Attributes:
        layers: the layers of the model.
        views: how rows see the inducing variables of each layer.
        likelihood: the density of outputs.
        propagation: how Gaussians go through layers.
        hidden_sites: whether the last of what rows see is their sites on hidden values.
    """

    layers: tuple[Layer, ...]
    views: tuple[tuple[InducingView, ...], ...]
    likelihood: AbstractLikelihood
    propagation: AbstractPropagation
    hidden_sites: bool = eqx.field(static=True, default=False)

    joint: ClassVar[bool] = True

    def stationary(self, power: Power) -> bool:
        return True

    def log_mean(self, latents: tuple[Latent, ...], rows: Rows, power: Power) -> Array:
        count = len(latents) - self.hidden_sites
        layers = self.processes([latent_belief(latent) for latent in latents[:count]])
        if self.hidden_sites:
            values, log_weights, log_ratio = self._sited(layers, latents[-1], rows, power)
            terms = terms_at(self.likelihood, values, rows, power) + log_ratio
        else:
            values, log_weights = propagate(self.propagation, layers, rows.x, rows.index)
            terms = terms_at(self.likelihood, values, rows, power)
        weights = jnp.broadcast_to(log_weights[:, None], terms.shape)
        return log_power_mean(terms, weights, power)[:, None]

    def derivatives(
        self, latents: tuple[Latent, ...], rows: Rows, power: Power
    ) -> tuple[Tilted, ...]:
        return differentiated(self.log_mean, latents, rows, power)

    def log_density(self, latents: tuple[Latent, ...], rows: Rows) -> Array:
        return self.log_mean(latents, rows, 1.0)

    def _sited(
        self, layers: tuple[LayerProcess, ...], sites: Latent, rows: Rows, power: Power
    ) -> tuple[Spread, Float[Array, " K"], Float[Array, "J N"]]:
        """Outputs where hidden values have sites, log weights, and log ratios of conditionals."""
        functions = [layer.without_noise() for layer in layers]
        noises = [cast(Scalar, layer.noise_variance) for layer in layers[:-1]]
        numbers = sites.mean, sites.var
        return propagate_sited(self.propagation, functions, noises, numbers, rows, power)

    def processes(self, beliefs: list[InducingBelief]) -> tuple[LayerProcess, ...]:
        """The functions of every layer under beliefs about all inducing variables."""
        ends = np.cumsum([len(views) for views in self.views])
        triples = zip(self.layers, self.views, ends, strict=True)
        return tuple(
            layer.process(views, beliefs[end - len(views) : end]) for layer, views, end in triples
        )


def terms_at(
    likelihood: AbstractLikelihood, values: Spread, rows: Rows, power: Power
) -> Float[Array, "K N"]:
    """The log power means at Gaussians of outputs, summed over the outputs that are observed.

    Args:
        likelihood: the density of outputs.
        values: K Gaussians per row for the functions.
        rows: the data.
        power: the power.
    """
    mean, var = values.mean, values.var
    if likelihood.latents > 1:  # functions of one output, along a first axis
        mean, var = jnp.moveaxis(mean, 2, 0)[..., None], jnp.moveaxis(var, 2, 0)[..., None]
    y = jnp.broadcast_to(rows.y, (values.mean.shape[0], *rows.y.shape))
    each = likelihood.log_power_mean(mean, var, y, power, rows.columns)
    return jnp.sum(rows.site_presence * each, axis=2)


def latent_belief(latent: Latent) -> InducingBelief:
    """A cavity as a belief, whose marginals a process gives."""
    zero = jnp.zeros((), latent.mean.dtype)
    return InducingBelief(latent.mean[:, None, :], latent.var, zero)
