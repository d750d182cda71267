"""The posterior of a model as a mixture over values of its parameters."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import AbstractPredictive, Side
from cavity.likelihoods.predictive.mixture import mixed_predictive
from cavity.models.base import AbstractModel
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float, PRNGKeyArray


class MixturePosterior(AbstractPosterior):
    """Posteriors at several values of the parameters, each with a share.

    Moments are those of the mixture; predictive distributions are mixtures too.

    Attributes:
        model: the model at the most likely of the values.
        parts: the posteriors, with a first axis in every array.
        shares: their shares, which add up to one.
    """

    model: AbstractModel
    parts: AbstractPosterior
    shares: Float[Array, " S"]
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    side: tuple[str, ...] = eqx.field(static=True, default=())

    @classmethod
    def from_parts(
        cls, parts: list[AbstractPosterior], shares: Float[Array, " S"]
    ) -> "MixturePosterior":
        """The mixture of posteriors of the same model, the first at its most likely values."""
        stacked: Any = jax.tree.map(lambda *each: np.stack([np.asarray(x) for x in each]), *parts)
        first: Any = parts[0]
        return cls(
            model=first.model,
            parts=stacked,
            shares=shares,
            n_inputs=first.n_inputs,
            outputs=first.outputs,
            single=first.single,
            side=first.side,
        )

    @property
    def size(self) -> int:
        return jax.tree.map(lambda x: x[0], self.parts).size * self.shares.shape[0]

    @property
    def likeliest(self) -> AbstractPosterior:
        """The posterior with the largest share."""
        first = int(np.argmax(np.asarray(self.shares)))
        return jax.tree.map(lambda x: x[first], self.parts)

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        mean, spread = jax.lax.map(lambda part: part.moments(X), self.parts)
        average = self._average(mean)
        away = mean - average
        if spread.ndim > mean.ndim:  # dependent functions
            between = away[..., :, None] * away[..., None, :]
        else:
            between = away**2
        return average, self._average(spread + between)

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        average, _ = self.moments(X)

        def one(total: Array, inputs: tuple[Array, AbstractPosterior]) -> tuple[Array, None]:
            share, part = inputs
            away = (part.moments(X)[0] - average).T
            cov = part.covariance(X)
            if cov.ndim == 4:
                between = away[:, :, None, None] * away[None, None]
            else:
                between = away[:, :, None] * away[:, None, :]
            return total + share * (cov + between), None

        shape = jax.eval_shape(lambda p: p.covariance(X), jax.tree.map(lambda x: x[0], self.parts))
        zero = jnp.zeros(shape.shape, shape.dtype)
        return jax.lax.scan(one, zero, (self.shares, self.parts))[0]

    def of_function(self, i: int) -> "MixturePosterior":
        part = self.parts.of_function(i)
        return dataclasses.replace(self, parts=part, outputs=part.outputs)

    def chosen(self, n: int, key: PRNGKeyArray) -> Array:
        """The parts that the samples of `sample` with this key belong to, (n,)."""
        pick, _ = jax.random.split(key)
        return jax.random.choice(pick, self.shares.shape[0], (n,), p=self.shares)

    def drawn_likelihoods(self, n: int, key: PRNGKeyArray) -> AbstractLikelihood:
        index = np.asarray(self.chosen(n, key))
        return jax.tree.map(lambda a: np.asarray(a)[index], self.parts.model.likelihood)

    def _about_mean(self, X: Array, shape: tuple[int, ...], key: PRNGKeyArray) -> Array:
        return _samples_about_mean(self, X, self.chosen(shape[0], key), key)

    def _predicted(self, X: Array, side: Side) -> AbstractPredictive:
        return _predicted(self, X, side)

    def _average(self, values: Float[Array, "S ..."]) -> Array:
        return jnp.tensordot(self.shares, values, axes=1)


@compiled
def _predicted(posterior: MixturePosterior, X: Array, side: Side) -> AbstractPredictive:
    draws = jax.lax.map(lambda part: part._predicted(X, side), posterior.parts)
    log_share = jnp.log(posterior.shares).reshape(-1, *[1] * (draws.mean.ndim - 1))
    return mixed_predictive(posterior.model.likelihood, draws, log_share)


@compiled
def _samples_about_mean(
    posterior: MixturePosterior, X: Array, index: Array, key: PRNGKeyArray
) -> Float[Array, "n rows P"]:
    average, _ = posterior.moments(X)
    _, noisy = jax.random.split(key)

    def one(inputs: tuple[Array, Array]) -> Array:
        place, own = inputs
        part = jax.tree.map(lambda a: a[place], posterior.parts)
        mean, _ = part.moments(X)
        return mean + part._about_mean(X, (1, *mean.shape), own)[0] - average

    return jax.lax.map(one, (index, jax.random.split(noisy, index.size)))
