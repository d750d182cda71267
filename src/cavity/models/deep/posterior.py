"""The posterior of a deep Gaussian process: marginals, coherent draws, predictions."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from cavity.inference.propagation import AbstractPropagation, Spread, propagate
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import AbstractPredictive, Side
from cavity.likelihoods.predictive.mixture import draws_predictive
from cavity.models.base import AbstractModel
from cavity.models.deep.latent_inputs import PriorInputs
from cavity.models.deep.layer import LayerProcess
from cavity.models.posterior import AbstractPosterior, Marginals
from cavity.models.process import along_draws
from cavity.numerics.chunking import cached_size, map_over_rows
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import root_of
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Key, PRNGKeyArray

# Coherent draws from which covariances between rows are estimated.
DRAWS = 64


class DeepPosterior(AbstractPosterior):
    """The posterior of a deep GP at fixed parameters.

    Its marginals are no Gaussians but mixtures over points of the hidden values, the same for
    every row; `marginals` gives their means and variances, `predict` keeps the mixture.

    Attributes:
        layers: the functions of every layer.
        propagation: how Gaussians go through them.
        latent_inputs: inputs of the first layer that are drawn from their prior.
        function: the one latent function that this is the posterior of; None for all of them.
    """

    model: AbstractModel
    layers: tuple[LayerProcess, ...]
    propagation: AbstractPropagation
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    latent_inputs: int = eqx.field(static=True, default=0)
    side: tuple[str, ...] = eqx.field(static=True, default=())
    function: int | None = eqx.field(static=True, default=None)

    @property
    def all_layers(self) -> "tuple[PriorInputs | LayerProcess, ...]":
        """The layers, and latent inputs as a layer below them where there are any."""
        if not self.latent_inputs:
            return self.layers
        return (PriorInputs(self.latent_inputs), *self.layers)

    @property
    def size(self) -> int:
        points = max(layer.process.size for layer in self.layers)
        return points * self.propagation.for_predictions().repeats

    def node_moments(
        self, X: Float[Array, "n D"]
    ) -> tuple[Float[Array, "n S P"], Float[Array, "n S P"]]:
        """Means and variances of f at every point of the hidden values."""
        values = outputs_of(self.propagation, self.all_layers, X)
        mean, var = jnp.moveaxis(values.mean, 0, 1), jnp.moveaxis(values.var, 0, 1)
        return self._chosen(mean), self._chosen(var)

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Float[Array, "n P"]]:
        mean, var = mixed(outputs_of(self.propagation, self.all_layers, X))
        return self._chosen(mean), self._chosen(var)

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "P n n"]:
        """From coherent draws of all hidden layers, the same in every call.

        Draws give the correlations between rows, `moments` the variances.
        """
        keys = jax.random.split(jax.random.key(0), DRAWS)

        def one(key: PRNGKeyArray) -> tuple[Array, Array]:
            hidden = self._hidden(X, key)
            mean, _ = self.layers[-1].moments(hidden)
            cov = self.layers[-1].covariance(hidden)
            return self._chosen(mean).T, cov if self.function is None else cov[self.function][None]

        mean, cov = jax.lax.map(one, keys)
        away = mean - jnp.mean(mean, axis=0)
        drawn = jnp.mean(cov, axis=0) + jnp.einsum("spi,spj->pij", away, away) / DRAWS
        _, var = self.moments(X)
        own = jnp.maximum(jnp.diagonal(drawn, axis1=1, axis2=2), jnp.finfo(X.dtype).tiny)
        scale = jnp.sqrt(var.T / own)
        return scale[:, :, None] * drawn * scale[:, None, :]

    def of_function(self, i: int) -> "DeepPosterior":
        if self.model.likelihood.latents == 1:
            return self
        return dataclasses.replace(self, function=i, outputs=1)

    def hidden(self, X: Any, layer: int) -> Marginals:
        """Means and variances of the outputs of a layer, (n, width) each.

        Args:
            X: inputs, (n, D).
            layer: which layer, counted from 0.

        Raises:
            ValueError: for unusable inputs, or a layer that the model does not have.
        """
        if not 0 <= layer < len(self.layers):
            raise ValueError(
                f"the model has {plural(len(self.layers), 'layer')}, counted from 0; given {layer}"
            )
        layers = self.layers[: layer + 1]
        shape = {"outputs": layers[-1].width, "single": False}
        return dataclasses.replace(self, layers=layers, function=None, **shape).marginals(X)

    def _chosen(self, values: Float[Array, "*rows P"]) -> Array:
        return values if self.function is None else values[..., self.function, None]

    def _hidden(self, X: Float[Array, "n D"], key: PRNGKeyArray) -> Float[Array, "n W"]:
        """The inputs of the last layer under one draw of all functions below it."""
        values, (*below, _) = X, self.all_layers
        keys = jax.random.split(key, max(len(below), 1))
        for layer, own in zip(below, keys, strict=False):
            values = _drawn(layer, layer.with_inputs(values, X), own)
        return self.layers[-1].with_inputs(values, X)

    def drawn_likelihoods(self, n: int, key: PRNGKeyArray) -> None:
        return None

    def _about_mean(self, X: Array, shape: tuple[int, ...], key: PRNGKeyArray) -> Array:
        return _draws_about_mean(self, X, jax.random.split(key, shape[0]))

    def _predicted(self, X: Array, side: Side) -> AbstractPredictive:
        mean, var = self._map_chunks(_each, self.checked_inputs(X))
        mean, var, side = along_draws(
            mean, var, side, several=self.model.likelihood.latents > 1, single=self.single
        )
        return mixture(self.model.likelihood, mean, var, side)


def _drawn(
    layer: PriorInputs | LayerProcess, inputs: Array, key: PRNGKeyArray
) -> Float[Array, "n W"]:
    """One draw of a layer's outputs, coherent between rows."""
    mean, _ = layer.moments(inputs)
    noise = jax.random.normal(key, mean.T.shape, mean.dtype)
    return mean + jnp.einsum("wij,wj->iw", root_of(layer.covariance(inputs)), noise)


@compiled
def _draws_about_mean(
    posterior: DeepPosterior, X: Array, keys: Key[Array, " n"]
) -> Float[Array, "n rows P"]:
    average, _ = posterior.moments(X)

    def one(key: PRNGKeyArray) -> Array:
        below, above = jax.random.split(key)
        drawn = _drawn(posterior.layers[-1], posterior._hidden(X, below), above)
        return posterior._chosen(drawn) - average

    return jax.lax.map(one, keys)


def outputs_of(
    propagation: AbstractPropagation,
    layers: tuple[PriorInputs | LayerProcess, ...],
    X: Float[Array, "n D"],
) -> Spread:
    """The outputs of the last of some layers at the points of predictions, of equal weight."""
    return propagate(propagation.for_predictions(), layers, X)[0]


def mixed(values: Spread) -> tuple[Float[Array, "n P"], Float[Array, "n P"]]:
    """Means and variances of equal mixtures."""
    average = jnp.mean(values.mean, axis=0)
    return average, jnp.mean(values.var, axis=0) + jnp.var(values.mean, axis=0)


@compiled
def _each(posterior: DeepPosterior, X: Array) -> tuple[Array, Array]:
    return map_over_rows(posterior.node_moments, X, cached_size(X.shape[0]))


def mixture(
    likelihood: AbstractLikelihood, mean: Array, var: Array, side: Side
) -> AbstractPredictive:
    """The predictive distribution of an equal mixture of Gaussians for the function.

    Args:
        likelihood: the density of outputs.
        mean: of f, one mixture component after the other along the first axis.
        var: of f.
        side: side data of the rows.
    """
    combine: Callable = _mixture if isinstance(mean, Tracer) else _compiled_mixture
    return combine(likelihood, mean, var, side)


def _mixture(
    likelihood: AbstractLikelihood, mean: Array, var: Array, side: Side
) -> AbstractPredictive:
    if mean.shape[0] == 1:
        return likelihood.predictive(mean[0], var[0], side)
    copies = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (mean.shape[0], *jnp.shape(x))), likelihood
    )
    return draws_predictive(copies, mean, var, side)


_compiled_mixture = compiled(_mixture)
