"""Likelihoods with a log link, whose log density is linear in f and exp(f)."""

import abc
import typing
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.likelihoods.base import ONE_LATENT, AbstractLikelihood, LatentFunction
from cavity.likelihoods.by_quadrature import (
    latent_predictive,
    quadrature_log_power_mean,
    quadrature_tilted,
)
from cavity.likelihoods.predictive.base import NONE, AbstractPredictive, Side
from cavity.numerics.power_limits import Power, with_limit_at_zero
from cavity.numerics.quadrature import Feature, Tilted
from cavity.numerics.tilted_mode import tilted_mode
from cavity.numerics.types import Array, Float

# Features of the tilted density are those of at least this power.
_SMALLEST_POWER = 1e-6


class AbstractLogLinear(AbstractLikelihood):
    r"""$\log p(y \mid f) = c(y) + b(y) f - r(y) e^{s f}$ with $s = \pm 1$; log-concave in f.

    Moments at power 0 have a closed form, since $\mathbb E[e^{s f}] = e^{s m + v / 2}$.
    Exponentials are capped below the largest number of the precision.

    To implement:
        `support`, `sign` (s) and `terms(y)`, which gives c, b and $\log r$.

    References:
        Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 3.3 for
        likelihoods with links; Johnson, Kotz and Balakrishnan (1994), eq. 14.8 for the moments.
    """

    sign: eqx.AbstractClassVar[float]
    latent_functions: ClassVar[tuple[LatentFunction, ...]] = ONE_LATENT
    log_concave: ClassVar[bool] = True

    @abc.abstractmethod
    def terms(self, y: Float[Array, "..."], **side: Array) -> tuple[Array, Array, Array]:
        """The constant, the slope and the logarithm of the rate."""

    @typing.final
    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        constant, slope, log_rate = self.terms(y, **side)
        return constant + slope * f - capped_exp(log_rate + self.sign * f)

    @typing.final
    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Array
    ) -> tuple[Feature, ...]:
        _, slope, log_rate = self.terms(y, **side)
        a = jnp.maximum(power, _SMALLEST_POWER)
        # the peak of the powered density, or the edge of a wide peak
        count = jnp.broadcast_to(jnp.maximum(a * jnp.abs(slope), 1.0), mean.shape)
        centre = self.sign * (jnp.log(count / a) - log_rate)
        change = lambda f: slope - self.sign * capped_exp(log_rate + self.sign * f)  # noqa: E731
        peak = tilted_mode(change, mean, var, power)
        return (centre, 1.0 / jnp.sqrt(count)), peak

    @typing.final
    def analytic_strip(self, y: Array, **side: Array) -> Feature:
        # off the real line it grows like a Gaussian about its peak
        _, slope, log_rate = self.terms(y, **side)
        count = jnp.broadcast_to(jnp.abs(slope), y.shape)
        centre = self.sign * (jnp.log(jnp.maximum(count, 0.5)) - log_rate)
        return centre, jnp.minimum(0.8, jnp.sqrt(4.0 / jnp.maximum(count, 1.0)))

    @typing.final
    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        return with_limit_at_zero(
            power,
            lambda: self._at_zero(mean, var, y, side).log_mean,
            lambda a: quadrature_log_power_mean(self, mean, var, y, a, side),
        )

    @typing.final
    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        return with_limit_at_zero(
            power,
            lambda: self._at_zero(mean, var, y, side),
            lambda a: quadrature_tilted(self, mean, var, y, a, side),
        )

    @typing.final
    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> AbstractPredictive:
        return latent_predictive(self, mean, var, side)

    def _at_zero(self, mean: Array, var: Array, y: Array, side: Side) -> Tilted:
        """The mean log density, and its slope and curvature in the mean."""
        constant, slope, log_rate = self.terms(y, **side)
        # E[r exp(s f)] = r exp(s m + v/2)
        rate = capped_exp(log_rate + self.sign * mean + 0.5 * var)
        return Tilted(constant + slope * mean - rate, slope - self.sign * rate, -rate)


def capped_exp(x: Array) -> Array:
    """The exponential, capped below the largest number of the precision."""
    x = jnp.asarray(x)
    return jnp.exp(jnp.minimum(x, 0.9 * float(np.log(jnp.finfo(x.dtype).max))))


def log_link_moments(
    mean: Array,
    var: Array,
    *,
    linear: Array | float,
    square: Array | float,
    scale: Array | float = 1.0,
) -> tuple[Array, Array]:
    r"""Moments of outputs with mean $\mu = e e^f$ and variance $\alpha \mu + \beta \mu^2$ given f.

    Args:
        mean: means of f.
        var: variances of f.
        linear: $\alpha$.
        square: $\beta$.
        scale: e.
    """
    average = scale * jnp.exp(mean + 0.5 * var)
    # E[μ²] = E[μ]² exp(v)
    spread = square * jnp.exp(var) + jnp.expm1(var)
    return average, linear * average + average**2 * spread
