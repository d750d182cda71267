"""Predictive distributions that are mixtures over draws of a likelihood and its function."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtri

from cavity.likelihoods.capabilities import ConditionedOnLatent, capability, number_of_classes
from cavity.likelihoods.predictive.base import AbstractPredictive, check_outputs
from cavity.likelihoods.predictive.classes import class_predictive
from cavity.likelihoods.predictive.quantiles import inverted_quantile
from cavity.likelihoods.support import Support
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float


@dataclasses.dataclass(frozen=True)
class MixtureSettings:
    """Settings of mixtures over draws.

    Attributes:
        strata: values of the function that stand for its Gaussian in a draw, in quantiles.
    """

    strata: int = 4


MIXTURE = MixtureSettings()


class MixturePredictive(AbstractPredictive):
    """Outputs as a mixture over draws, or over nodes of a parameter.

    The density is exact. Quantiles are those of the mixture with the function of each draw at a
    few values that together cover its distribution; their error is below the Monte Carlo error.

    Attributes:
        mean: means of y.
        var: variances of y.
        draws: the predictive distribution of each draw, along a first axis.
        log_share: log of the share of each draw; None where all are alike.
    """

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    draws: AbstractPredictive
    log_share: Float[Array, "S ..."] | None = None

    @property
    def support(self) -> Support:
        return self.draws.support

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        return _log_density(self, y)

    def rough_log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """A cheap `log_density` for tables, with the values of the function of quantiles."""
        draws = capability(self.draws, ConditionedOnLatent)
        if draws is None:
            return _log_density(self, y)

        def draw_density(inputs: tuple[ConditionedOnLatent, Array]) -> Array:
            draw, f = inputs
            return logsumexp(draw.log_density_given(f, y), axis=0)

        values = jax.lax.map(draw_density, (draws, _strata(draws)))
        return _log_average(values, self.log_share) - jnp.log(MIXTURE.strata)

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        draws = capability(self.draws, ConditionedOnLatent)
        if draws is None:
            return _average(jax.vmap(lambda draw: draw.cdf(y))(self.draws), self.log_share)

        def draw_cdf(inputs: tuple[ConditionedOnLatent, Array]) -> Array:
            draw, f = inputs
            return jnp.mean(draw.cdf_given(f, y), axis=0)

        return _average(jax.lax.map(draw_cdf, (draws, _strata(draws))), self.log_share)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        return inverted_quantile(self, p)


def draws_predictive(
    likelihoods: Any, mean: Float[Array, "S ..."], var: Float[Array, "S ..."], side: Any
) -> AbstractPredictive:
    """The equal mixture of predictive distributions of draws.

    Args:
        likelihoods: the likelihood with a first axis in every array.
        mean: means of the latent functions in every draw.
        var: their variances.
        side: side data of the rows.
    """

    def draw_predictive(draw: tuple[Any, Array, Array]) -> AbstractPredictive:
        likelihood, m, v = draw
        return likelihood.predictive(m, v, side)

    return mixed_predictive(likelihoods, jax.lax.map(draw_predictive, (likelihoods, mean, var)))


def mixed_predictive(
    likelihood: Any, draws: Any, log_share: Float[Array, "S ..."] | None = None
) -> AbstractPredictive:
    """The mixture of predictive distributions.

    Args:
        likelihood: that of the outputs, of which only the support and the classes count.
        draws: the distributions, along a first axis.
        log_share: log of the share of each; None where all are alike.
    """
    if likelihood.support is Support.LABELS:
        labels = jnp.arange(number_of_classes(likelihood), dtype=draws.mean.dtype)

        def label_density(label: Array) -> Array:
            return jax.vmap(lambda d: d.log_density(jnp.full_like(d.mean, 1.0) * label))(draws)

        log_p = [_log_average(each, log_share) for each in jax.lax.map(label_density, labels)]
        return class_predictive(jnp.stack(log_p, axis=-1))
    mean = _average(draws.mean, log_share)
    var = _average(draws.var, log_share) + _average((draws.mean - mean) ** 2, log_share)
    return MixturePredictive(mean, var, draws, log_share)


def _average(values: Float[Array, "S ..."], log_share: Array | None) -> Float[Array, "..."]:
    if log_share is None:
        return jnp.mean(values, axis=0)
    return jnp.sum(jnp.exp(log_share) * values, axis=0)


def _log_average(values: Float[Array, "S ..."], log_share: Array | None) -> Float[Array, "..."]:
    """The log of the average of what has these logs."""
    if log_share is None:
        return logsumexp(values, axis=0) - jnp.log(len(values))
    return logsumexp(values + log_share, axis=0)


@compiled
def _log_density(predictive: MixturePredictive, y: Array) -> Array:
    values = jax.lax.map(lambda draw: draw.log_density(y), predictive.draws)
    return _log_average(values, predictive.log_share)


def _strata(draws: ConditionedOnLatent) -> Float[Array, "S K ..."]:
    """A few values of the function for each draw, an even spread over those of all together."""
    count, strata = draws.latent_mean.shape[0], MIXTURE.strata
    levels = (np.arange(strata) + _van_der_corput(count)[:, None]) / strata
    ones = (1,) * (draws.latent_mean.ndim - 1)
    z = ndtri(jnp.asarray(levels, draws.latent_mean.dtype)).reshape(count, strata, *ones)
    return draws.latent_mean[:, None] + jnp.sqrt(draws.latent_var)[:, None] * z


def _van_der_corput(count: int) -> np.ndarray:
    """The van der Corput sequence: numbers in (0, 1) that fill it evenly for any count."""
    bits = np.arange(1, count + 1)
    points, unit = np.zeros(count), 0.5
    while np.any(bits):
        points += unit * (bits % 2)
        bits, unit = bits // 2, unit / 2
    return points
