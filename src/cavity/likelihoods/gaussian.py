"""Gaussian noise."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri

from cavity.likelihoods.base import ONE_LATENT, AbstractLikelihood, LatentFunction
from cavity.likelihoods.capabilities import Bound
from cavity.likelihoods.predictive.base import (
    NONE,
    AbstractPredictive,
    Side,
    check_outputs,
    levels,
)
from cavity.likelihoods.support import Support
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.power_limits import Power, log1p_ratio, log_determinant_ratio
from cavity.numerics.quadrature import Tilted
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import positive


class NormalPredictive(AbstractPredictive):
    """Normal predictive distributions, one per row (and output)."""

    mean: Float[Array, "..."]
    var: Float[Array, "..."]

    @property
    def support(self) -> Support:
        return Support.REAL

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        return -0.5 * (LOG_2PI + jnp.log(self.var) + (y - self.mean) ** 2 / self.var)

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return ndtr((y - self.mean) / jnp.sqrt(self.var))

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        return self.mean + ndtri(levels(p, self.mean)) * jnp.sqrt(self.var)


class Gaussian(AbstractLikelihood):
    r"""Gaussian noise, $p(y \mid f) = \mathcal N(y; f, \sigma^2)$.

    Known noise variances of the rows (`rows={"noise_variance": ...}`) replace `variance`. Noise
    that is partly known and partly learned is a `White` kernel beside the known part.

    Args:
        variance: $\sigma^2$, in squared units of the output; one number, or one per output.

    References:
        Bui (2017), S3 and S23 of the power EP closed form; eq. 1.7.
    """

    variance: Float[Array, "..."] = positive(output=2)

    def __init__(self, variance: Any = 0.1):
        self.variance = variance

    support: ClassVar[Support] = Support.REAL
    side: ClassVar[tuple[str, ...]] = ("noise_variance",)
    latent_functions: ClassVar[tuple[LatentFunction, ...]] = ONE_LATENT
    log_concave: ClassVar[bool] = True
    bounded: ClassVar[bool] = True

    def noise_variance(self, noise_variance: Array | None = None) -> Float[Array, "..."]:
        """The noise variance of each row and output: the known one, or the parameter."""
        return self.variance if noise_variance is None else noise_variance

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        s = self.noise_variance(**side)
        return -0.5 * (LOG_2PI + jnp.log(s) + (y - f) ** 2 / s)

    def bound(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        y: Float[Array, "..."],
        **side: Array,
    ) -> Bound:
        # a Gaussian is its own bound, wherever they touch
        s = jnp.broadcast_to(self.noise_variance(**side), mean.shape)
        return Bound(y, jnp.zeros_like(mean), 1.0 / s, -0.5 * (LOG_2PI + jnp.log(s)))

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        s = self.noise_variance(**side)
        # log p(y | m) with s + a v in the quadratic, - log(1 + a v / s) / 2a
        quadratic = (y - mean) ** 2 / (s + power * var)
        return -0.5 * (LOG_2PI + jnp.log(s) + quadratic + log1p_ratio(power, var / s))

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        total = self.noise_variance(**side) + power * var
        slope, curvature = (y - mean) / total, jnp.broadcast_to(-1.0 / total, mean.shape)
        return Tilted(self.log_power_mean(mean, var, y, power, side), slope, curvature)

    def log_power_mean_block(
        self,
        mean: Float[Array, " B"],
        cov: Float[Array, "B B"],
        y: Float[Array, " B"],
        presence: Float[Array, " B"],
        variance: Float[Array, " B"],
        power: float | Float[Array, ""],
    ) -> Float[Array, ""]:
        """The log power mean of a block of outputs; absent outputs do not count."""
        s = safe_sqrt(presence / variance)
        S = s[:, None] * cov * s[None, :]
        eye = jnp.eye(S.shape[0], dtype=S.dtype)
        residual = s * (y - mean)
        quadratic = residual @ jnp.linalg.solve(eye + power * S, residual)
        noise = jnp.sum(presence * (LOG_2PI + jnp.log(variance)))
        return -0.5 * (noise + quadratic + log_determinant_ratio(power, S))

    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> NormalPredictive:
        return NormalPredictive(mean, var + self.noise_variance(**side))

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        deviation = jnp.sqrt(self.noise_variance(**side))
        return f + deviation * jax.random.normal(key, f.shape, f.dtype)
