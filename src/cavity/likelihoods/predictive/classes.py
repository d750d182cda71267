"""Predictive probabilities of classes."""

import jax
import jax.numpy as jnp

from cavity.likelihoods.predictive.base import AbstractPredictive, check_outputs, levels
from cavity.likelihoods.support import Support
from cavity.numerics.types import Array, Float


class BernoulliPredictive(AbstractPredictive):
    """Probabilities of class 1; they are the means."""

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    log_odds: Float[Array, "..."]

    @property
    def support(self) -> Support:
        return Support.LABELS

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        return jax.nn.log_sigmoid((2.0 * y - 1.0) * self.log_odds)

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        below_one = jnp.where(y < 0.0, 0.0, jax.nn.sigmoid(-self.log_odds))
        return jnp.where(y < 1.0, below_one, 1.0)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        return jnp.where(levels(p, self.mean) > jax.nn.sigmoid(-self.log_odds), 1.0, 0.0)


class ClassPredictive(AbstractPredictive):
    """Probabilities of several classes.

    Mean and variance are those of the class number, which are meaningful for ordered classes.
    """

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    log_probabilities: Float[Array, "... C"]

    @property
    def support(self) -> Support:
        return Support.LABELS

    @property
    def probabilities(self) -> Float[Array, "... C"]:
        """The probability of every class, along the last axis."""
        return jnp.exp(self.log_probabilities)

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        count = self.log_probabilities.shape[-1]
        is_label = (y >= 0.0) & (y < count) & (y % 1.0 == 0.0)
        index = jnp.where(is_label, y, 0.0).astype(int)[..., None]
        log_p = jnp.take_along_axis(self.log_probabilities, index, axis=-1)[..., 0]
        return jnp.where(is_label, log_p, -jnp.inf)

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        numbers = jnp.arange(self.log_probabilities.shape[-1], dtype=self.mean.dtype)
        return jnp.sum(jnp.where(numbers <= y[..., None], self.probabilities, 0.0), axis=-1)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        level = levels(p, self.mean)
        below = jnp.cumsum(self.probabilities, axis=-1)[..., :-1]
        return jnp.sum(below < level[..., None], axis=-1).astype(self.mean.dtype)


def class_predictive(log_probabilities: Float[Array, "... C"]) -> ClassPredictive:
    """The predictive distribution with these log probabilities."""
    p = jnp.exp(log_probabilities)
    numbers = jnp.arange(p.shape[-1], dtype=p.dtype)
    average = jnp.sum(p * numbers, axis=-1)
    spread = jnp.sum(p * (numbers - average[..., None]) ** 2, axis=-1)
    return ClassPredictive(average, spread, log_probabilities)
