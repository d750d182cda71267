"""Likelihoods with a logarithmic link: linear in f but for one exponential, and their moments."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.likelihoods.base import NONE, AbstractLikelihood
from cavity.likelihoods.predictive.latent import LatentPredictive, Side
from cavity.numerics import quadrature
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.quadrature import Landmark, Tilted
from cavity.numerics.types import Array, Float

# Powers below this put the bend of the tilted density no further out.
LEAST_POWER = 1e-6


class AbstractLogLinear(AbstractLikelihood):
    r"""$\log p(y \mid f) = c(y) + b(y) f - r(y) e^{s f}$ with $s = \pm 1$; log-concave in f.

    At power 0 everything has a closed form, since $\mathbb E[e^{s f}] = e^{s m + v / 2}$. An
    exponential too large for the precision stays at about the largest number there is.

    To implement:
        `support`, `sign` (s) and `terms(y)`, which gives c, b and $\log r$.

    References:
        Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 3.3 for
        likelihoods with links; Johnson, Kotz and Balakrishnan (1994), eq. 14.8 for the moments.
    """

    sign: eqx.AbstractClassVar[float]
    log_concave: ClassVar[bool] = True

    @abc.abstractmethod
    def terms(self, y: Float[Array, "..."], **side: Any) -> tuple[Array, Array, Array]:
        """The constant, the slope and the logarithm of the rate."""

    def log_prob(
        self, f: Float[Array, "..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        constant, slope, log_rate = self.terms(y, **side)
        return constant + slope * f - capped_exp(log_rate + self.sign * f)

    def landmarks(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Any
    ) -> tuple[Landmark, ...]:
        _, slope, log_rate = self.terms(y, **side)
        a = jnp.maximum(power, LEAST_POWER)
        # where the power of the density has its peak, or falls off if the peak is a wide one
        count = jnp.broadcast_to(jnp.maximum(a * jnp.abs(slope), 1.0), mean.shape)
        place = self.sign * (jnp.log(count / a) - log_rate)
        change = lambda f: slope - self.sign * capped_exp(log_rate + self.sign * f)  # noqa: E731
        peak = quadrature.mode(change, mean, var, power)
        return (place, 1.0 / jnp.sqrt(count)), peak

    def analytic_strip(self, y: Array, **side: Any) -> Landmark:
        # beside the real line it grows as a Gaussian about its peak does
        _, slope, log_rate = self.terms(y, **side)
        count = jnp.broadcast_to(jnp.abs(slope), y.shape)
        place = self.sign * (jnp.log(jnp.maximum(count, 0.5)) - log_rate)
        return place, jnp.minimum(0.8, jnp.sqrt(4.0 / jnp.maximum(count, 1.0)))

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        if is_exactly(power, 0.0):
            return self._at_zero(mean, var, y, side).log_mean
        if isinstance(power, int | float):
            return super().log_power_mean(mean, var, y, power, side)
        zero = jnp.asarray(power) <= 0.0
        found = super().log_power_mean(mean, var, y, jnp.where(zero, 1.0, power), side)
        return jnp.where(zero, self._at_zero(mean, var, y, side).log_mean, found)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        if is_exactly(power, 0.0):
            return self._at_zero(mean, var, y, side)
        if isinstance(power, int | float):
            return super().tilted(mean, var, y, power, side)
        zero = jnp.asarray(power) <= 0.0
        found = super().tilted(mean, var, y, jnp.where(zero, 1.0, power), side)
        limit = self._at_zero(mean, var, y, side)
        return jax.tree.map(lambda a, b: jnp.where(zero, a, b), limit, found)

    def _at_zero(self, mean: Array, var: Array, y: Array, side: Side) -> Tilted:
        """The mean log density, and its slope and curvature in the mean."""
        constant, slope, log_rate = self.terms(y, **side)
        # E[r exp(s f)] = r exp(s m + v/2)
        rate = capped_exp(log_rate + self.sign * mean + 0.5 * var)
        return Tilted(constant + slope * mean - rate, slope - self.sign * rate, -rate)


def capped_exp(x: Array) -> Array:
    """The exponential, held below the largest number of the precision."""
    x = jnp.asarray(x)
    return jnp.exp(jnp.minimum(x, 0.9 * float(np.log(jnp.finfo(x.dtype).max))))


def log_link_predictive(
    likelihood: Any,
    mean: Array,
    var: Array,
    side: Side,
    *,
    linear: Array | float,
    square: Array | float,
    scale: Array | float = 1.0,
) -> LatentPredictive:
    r"""Outputs with mean $\mu = e e^f$ and variance $\alpha \mu + \beta \mu^2$ given f.

    Args:
        likelihood: has `cdf(y, f)`.
        mean: means of f.
        var: variances of f.
        side: side data of the rows.
        linear: $\alpha$.
        square: $\beta$.
        scale: e.
    """
    average = scale * jnp.exp(mean + 0.5 * var)
    # E[μ²] = E[μ]² exp(v)
    spread = square * jnp.exp(var) + jnp.expm1(var)
    return LatentPredictive(
        average, linear * average + average**2 * spread, likelihood, mean, var, dict(side)
    )
