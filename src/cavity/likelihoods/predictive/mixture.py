"""Predictive distributions that are equal mixtures over draws of a likelihood and its function."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtri

from cavity.likelihoods.predictive.latent import (
    LARGEST_COUNT,
    REACH,
    AbstractPredictive,
    LatentPredictive,
    check_levels,
    check_outputs,
    class_predictive,
    line_to_support,
    possible,
)
from cavity.likelihoods.support import Support
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float

# Values of the function that stand for its Gaussian in a draw, where quantiles are looked for.
STRATA = 4
# Halvings of the bracket of a quantile.
HALVINGS = 40


class MixturePredictive(AbstractPredictive):
    """Outputs as an equal mixture over draws.

    The density is exact. Quantiles are those of the mixture, with the function of each draw at a
    few values that together cover its distribution: they are off by less than the Monte Carlo
    error of the draws.

    Attributes:
        mean: means of y.
        var: variances of y.
        draws: the predictive distribution of each draw, along a first axis.
    """

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    draws: Any

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        return _log_density(self, y)

    def rough_log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """`log_density` as quick as can be, for tables of it: with the values of quantiles."""
        if not isinstance(self.draws, LatentPredictive):
            return _log_density(self, y)
        inside, safe = possible(self.draws.likelihood, y)

        def one(inputs: tuple[Any, Array]) -> Array:
            draw, f = inputs
            return logsumexp(draw.likelihood.log_prob(f, safe, **draw.side), axis=0)

        found = jax.lax.map(one, (self.draws, _strata(self.draws)))
        total = logsumexp(found, axis=0) - jnp.log(len(found) * STRATA)
        return jnp.where(inside, total, -jnp.inf)

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Probability that outputs are at most y."""
        return jnp.mean(_cdfs(self.draws, y), axis=0)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        check_levels(p)
        return _quantiles(self, jnp.asarray(p, self.mean.dtype))


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

    def one(draw: Any) -> AbstractPredictive:
        likelihood, m, v = draw
        return likelihood.predictive(m, v, side)

    each: Any = jax.lax.map(one, (likelihoods, mean, var))
    if likelihoods.support is Support.LABELS:
        labels = jnp.arange(likelihoods.classes, dtype=mean.dtype)

        def of_class(label: Array) -> Array:
            return jax.vmap(lambda d: d.log_density(jnp.full_like(d.mean, 1.0) * label))(each)

        found = logsumexp(jax.lax.map(of_class, labels), axis=1) - jnp.log(len(mean))
        return class_predictive(jnp.moveaxis(found, 0, -1))
    average = jnp.mean(each.mean, axis=0)
    return MixturePredictive(
        average, jnp.mean(each.var, axis=0) + jnp.var(each.mean, axis=0), each
    )


@compiled
def _log_density(predictive: MixturePredictive, y: Array) -> Array:
    found = jax.lax.map(lambda draw: draw.log_density(y), predictive.draws)
    return logsumexp(found, axis=0) - jnp.log(len(found))


def _cdfs(draws: Any, y: Array) -> Float[Array, "S ..."]:
    """Distribution functions of all draws at y."""
    if not isinstance(draws, LatentPredictive):
        return jax.vmap(lambda draw: draw.cdf(y))(draws)

    def one(inputs: tuple[Any, Array]) -> Array:
        draw, f = inputs
        return jnp.mean(draw.likelihood.cdf(y, f, **draw.side), axis=0)

    return jax.lax.map(one, (draws, _strata(draws)))


def _strata(draws: LatentPredictive) -> Float[Array, "S K ..."]:
    """A few values of the function for each draw, an even spread over those of all together."""
    count = draws.latent_mean.shape[0]
    places = (np.arange(STRATA) + _van_der_corput(count)[:, None]) / STRATA
    ones = (1,) * (draws.latent_mean.ndim - 1)
    z = ndtri(jnp.asarray(places, draws.latent_mean.dtype)).reshape(count, STRATA, *ones)
    return draws.latent_mean[:, None] + jnp.sqrt(draws.latent_var)[:, None] * z


def _van_der_corput(count: int) -> np.ndarray:
    """Numbers in (0, 1) that fill it evenly in any order of length."""
    bits = np.arange(1, count + 1)
    found, unit = np.zeros(count), 0.5
    while np.any(bits):
        found += unit * (bits % 2)
        bits, unit = bits // 2, unit / 2
    return found


@compiled
def _quantiles(predictive: MixturePredictive, p: Array) -> Array:
    """Quantiles at one probability, or at several along a leading axis."""

    def one(level: Array) -> Array:
        return _quantile(predictive, level)

    return one(p) if p.ndim == 0 else jax.lax.map(one, p)


def _quantile(predictive: MixturePredictive, p: Array) -> Array:
    draws = predictive.draws
    support = Support.REAL if not hasattr(draws, "likelihood") else draws.likelihood.support
    if support.discrete:
        return _count(predictive, p)
    centre = predictive.mean
    known = jnp.where(jnp.isfinite(predictive.var), predictive.var, jnp.var(draws.mean, axis=0))
    to_y, _ = line_to_support(support, centre, known)
    reach = jnp.full_like(centre, REACH)

    def halve(_: Array | int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = predictive.cdf(to_y(middle)) < p
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (-reach, reach))
    return to_y(0.5 * (low + high))


def _count(predictive: MixturePredictive, p: Array) -> Array:
    """The smallest count with at least this probability below or at it."""
    low = jnp.full_like(predictive.mean, -1.0)
    # at most mean + deviation √(p / (1 - p)), by Cantelli's inequality
    most = predictive.mean + jnp.sqrt(predictive.var * p / (1.0 - p))
    high = jnp.where(most < LARGEST_COUNT, jnp.ceil(most) + 1.0, LARGEST_COUNT)

    def halve(_: Array | int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = jnp.floor(0.5 * (low + high))
        below = predictive.cdf(middle) < p
        inside = (middle > low) & (middle < high)
        return jnp.where(inside & below, middle, low), jnp.where(inside & ~below, middle, high)

    return jax.lax.fori_loop(0, HALVINGS + 12, halve, (low, high))[1]
