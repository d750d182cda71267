"""Heavy-tailed noise: Student-t and Laplace likelihoods."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammaln

from cavity.likelihoods.by_quadrature import AbstractQuadratureLikelihood
from cavity.likelihoods.capabilities import Bound
from cavity.likelihoods.support import Support
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Feature
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import positive

# Degrees of freedom above which a difference of log gamma functions uses its series.
_SERIES_DF = 30.0


def _log_height(nu: Array) -> Array:
    """The log density of Student-t noise of scale 1 at zero, accurate for any df."""
    small = nu < _SERIES_DF
    df = jnp.where(small, nu, _SERIES_DF)
    direct = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * jnp.log(df * jnp.pi)
    df = jnp.where(small, _SERIES_DF, nu)
    s = 1.0 / df**2
    series = -(0.25 - s * (1.0 / 24.0 - s * (0.05 - s * (17.0 / 112.0)))) / df - 0.5 * LOG_2PI
    return jnp.where(small, direct, series)


class StudentT(AbstractQuadratureLikelihood):
    r"""Student-t noise, for robust regression.

    $$p(y \mid f) = \frac{\Gamma((\nu+1)/2)}{\Gamma(\nu/2) \sqrt{\nu\pi}\, \sigma}
    \Big(1 + \frac{(y - f)^2}{\nu\sigma^2}\Big)^{-(\nu+1)/2}$$

    The posterior of f may have several modes, and the sites of outliers have negative precision.
    Outputs have no finite variance for $\nu \le 2$: the predictive variance is then infinite;
    use quantiles.

    Args:
        scale: $\sigma$, in units of the output; not the standard deviation.
        df: $\nu$, the degrees of freedom; small means heavy tails.

    References:
        Jylanki (2013), S56 to S58 and S65.
    """

    scale: Float[Array, ""] = positive(output=1)
    df: Float[Array, ""] = positive()

    support: ClassVar[Support] = Support.REAL
    analytic_in_cone: ClassVar[bool] = True
    bounded: ClassVar[bool] = True

    def __init__(self, scale: Any = 0.3, df: Any = 4.0):
        self.scale, self.df = scale, df

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        nu, z = self.df, (y - f) / self.scale
        height = _log_height(nu)
        return height - jnp.log(self.scale) - 0.5 * (nu + 1.0) * jnp.log1p(z**2 / nu)

    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Array
    ) -> tuple[Feature, ...]:
        return ((y, jnp.broadcast_to(self.scale, y.shape)),)

    def analytic_strip(self, y: Array, **side: Array) -> Feature:
        # poles at y ± iσ√ν; for large ν it grows as a Gaussian does
        strip = self.scale * jnp.minimum(0.75 * jnp.sqrt(self.df), 2.0)
        return y, jnp.broadcast_to(strip, y.shape)

    def bound(self, mean: Array, var: Array, y: Array, **side: Array) -> Bound:
        # γ = (νσ² + E r²)/(ν + 1) touches at r² = E r²
        nu, square = self.df, (y - mean) ** 2 + var
        total = nu * self.scale**2 + square
        precision = (nu + 1.0) / total
        constant = self.log_prob(jnp.sqrt(square), jnp.zeros_like(y)) + 0.5 * precision * square
        return Bound(y, jnp.zeros_like(mean), precision, constant)

    def cdf(self, y: Array, f: Array, **side: Array) -> Array:
        """Probability that the output is at most y given f."""
        z = (y - f) / self.scale
        tail = 0.5 * betainc(0.5 * self.df, 0.5, self.df / (self.df + z**2))
        return jnp.where(z > 0.0, 1.0 - tail, tail)

    def predictive_moments(self, mean: Array, var: Array, **side: Array) -> tuple[Array, Array]:
        # infinite where df is at most 2
        finite = self.df > 2.0
        ratio = self.df / jnp.where(finite, self.df - 2.0, 1.0)
        return mean, var + jnp.where(finite, self.scale**2 * ratio, jnp.inf)

    def outlier_weights(self, residuals: np.ndarray) -> np.ndarray:
        df, z = float(self.df), residuals / float(self.scale)
        return df / (df + z**2)

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        return f + self.scale * jax.random.t(key, self.df, f.shape, f.dtype)


class Laplace(AbstractQuadratureLikelihood):
    r"""Laplace (double exponential) noise, $p(y \mid f) = e^{-|y - f| / b} / 2b$.

    Args:
        scale: b, in units of the output; the standard deviation is $\sqrt 2\, b$.

    References:
        Jylanki (2013), S9 and S71.
    """

    scale: Float[Array, ""] = positive(output=1)

    support: ClassVar[Support] = Support.REAL
    log_concave: ClassVar[bool] = True
    smooth: ClassVar[bool] = False
    bounded: ClassVar[bool] = True

    def __init__(self, scale: Any = 0.3):
        self.scale = scale

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        return -jnp.abs(y - f) / self.scale - jnp.log(2.0 * self.scale)

    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Array
    ) -> tuple[Feature, ...]:
        # the second is the mode: the Gaussian's mean shifted by the slope, or the kink at y
        shift = power * var / self.scale
        middle = jnp.clip(y, mean - shift, mean + shift)
        width = jnp.broadcast_to(self.scale, y.shape)
        return (y, width), (middle, jnp.sqrt(var))

    def bound(self, mean: Array, var: Array, y: Array, **side: Array) -> Bound:
        # |r| ≤ (r²/ξ + ξ)/2, equal at r² = ξ² = E r²
        reach = jnp.sqrt((y - mean) ** 2 + var)
        precision = 1.0 / (self.scale * reach)
        constant = -0.5 * reach / self.scale - jnp.log(2.0 * self.scale)
        return Bound(y, jnp.zeros_like(mean), precision, constant)

    def cdf(self, y: Array, f: Array, **side: Array) -> Array:
        """Probability that the output is at most y given f."""
        z = (y - f) / self.scale
        tail = 0.5 * jnp.exp(-jnp.abs(z))
        return jnp.where(z > 0.0, 1.0 - tail, tail)

    def predictive_moments(self, mean: Array, var: Array, **side: Array) -> tuple[Array, Array]:
        return mean, var + 2.0 * self.scale**2

    def outlier_weights(self, residuals: np.ndarray) -> None:
        """None: every output pulls alike."""

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        return f + self.scale * jax.random.laplace(key, f.shape, f.dtype)
