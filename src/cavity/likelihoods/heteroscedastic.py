"""Heteroscedastic Gaussian noise: its variance is a function of the inputs."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from cavity.likelihoods.base import AbstractLikelihood, LatentFunction
from cavity.likelihoods.by_quadrature import AbstractQuadratureLikelihood, quadrature_measure
from cavity.likelihoods.predictive.base import NONE, AbstractPredictive, Side
from cavity.likelihoods.predictive.latent import LatentPredictive
from cavity.likelihoods.support import Support
from cavity.numerics import quadrature
from cavity.numerics.power_limits import Power, with_limit_at_zero
from cavity.numerics.quadrature import Feature, Tilted
from cavity.numerics.special import LOG_2PI
from cavity.numerics.tilted_mode import tilted_mode
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import Units

# Smaller variances, of the function and of the log noise variance, count as these.
SMALLEST = (float(np.finfo(np.float64).eps) ** 2, 1e-8)


class NoiseLevel(AbstractQuadratureLikelihood):
    r"""The density of an output given its log noise variance g, with f integrated out.

    $$\tfrac1a \log \mathbb E_{\mathcal N(f; m, v)}[\mathcal N(y; f, e^g)^a]$$

    with m, v and a in the side data `f_mean`, `f_var` and `f_power`.
    """

    support: ClassVar[Support] = Support.REAL
    side: ClassVar[tuple[str, ...]] = ("f_mean", "f_var", "f_power")

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        m, v, a = side["f_mean"], side["f_var"], side["f_power"]
        # log(1 + a v/s)/a without overflow of the variance s
        spread = jax.nn.softplus(jnp.log(a * v) - f) / a
        return -0.5 * (LOG_2PI + f + (y - m) ** 2 / (jnp.exp(f) + a * v) + spread)

    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Array
    ) -> tuple[Feature, ...]:
        ones = jnp.ones_like(mean)
        square = (y - side["f_mean"]) ** 2
        knees = (square + side["f_var"], side["f_power"] * side["f_var"])
        centres = tuple((jnp.log(knee + 1e-30), ones) for knee in knees)

        def slope(g: Array) -> Array:
            return jax.jvp(lambda at: self.log_prob(at, y, **side), (g,), (jnp.ones_like(g),))[1]

        return (*centres, tilted_mode(slope, mean, var, power))

    def cdf(self, y: Array, f: Array, **side: Array) -> Array:
        """Probability that the output is at most y given the log noise variance."""
        return ndtr((y - side["f_mean"]) / jnp.sqrt(side["f_var"] + jnp.exp(f)))


class HeteroscedasticGaussian(AbstractLikelihood):
    r"""Gaussian noise whose variance depends on the input, $p(y) = \mathcal N(y; f, e^g)$.

    The model has two latent functions, f and the logarithm g of the noise variance, each with a
    kernel and a mean: `GP((kernel_f, kernel_g), HeteroscedasticGaussian(), mean=(mean_f,
    mean_g))`. A `Constant` mean of g is the logarithm of a typical noise variance. The posterior
    treats the two as independent; f is integrated in closed form, g by quadrature.

    References:
        Bui (2017), S28.
    """

    support: ClassVar[Support] = Support.REAL
    latent_functions: ClassVar[tuple[LatentFunction, ...]] = (
        LatentFunction("f"),
        LatentFunction("log noise variance", Units(), log_output=2, start=np.log),
    )

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        f, g = f
        return -0.5 * (LOG_2PI + g + (y - f) ** 2 * jnp.exp(-g))

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        return with_limit_at_zero(
            power,
            # E e^-g = exp(-m + v/2)
            lambda: self._at_zero(mean, var, y)[0],
            lambda a: NoiseLevel().log_power_mean(
                mean[1], var[1], y, a, _given_function(mean[0], _usable(var)[0], a)
            ),
        )

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        return with_limit_at_zero(
            power,
            lambda: self._tilted_at_zero(mean, var, y),
            lambda a: self._tilted_above_zero(mean, var, y, a),
        )

    def _tilted_above_zero(self, mean: Array, var: Array, y: Array, power: Power) -> Tilted:
        m, mean_g = mean
        v, var_g = _usable(var)
        level, a = NoiseLevel(), power
        side = _given_function(m, v, a)
        measure = quadrature_measure(level, mean_g, var_g, y, a, side)
        value = level.log_prob(measure.nodes, y, **side)
        of_g = quadrature.tilted_moments(value, measure, mean_g, var_g, a)
        # f given g is Gaussian
        share = jax.nn.softmax(a * value + measure.log_weight, axis=0)
        precision = 1.0 / (jnp.exp(measure.nodes) + a * v)
        scores = (y - m) * precision
        slope, curvature = quadrature.mixed_derivatives(share, scores, -precision, a)
        slopes = jnp.stack([slope, of_g.slope])
        return Tilted(of_g.log_mean, slopes, jnp.stack([curvature, of_g.curvature]))

    def sample(self, key: PRNGKeyArray, f: Float[Array, "2 ..."], **side: Array) -> Array:
        f, g = f
        return f + jnp.exp(0.5 * g) * jax.random.normal(key, f.shape, f.dtype)

    def _tilted_at_zero(self, mean: Array, var: Array, y: Array) -> Tilted:
        value, share = self._at_zero(mean, var, y)
        r = y - mean[0]
        square = 0.5 * (r**2 + var[0]) * share
        return Tilted(value, jnp.stack([r * share, square - 0.5]), -jnp.stack([share, square]))

    def _at_zero(self, mean: Array, var: Array, y: Array) -> tuple[Array, Array]:
        """The expected log density, and the expected noise precision."""
        share = jnp.exp(0.5 * var[1] - mean[1])
        square = (y - mean[0]) ** 2 + var[0]
        return -0.5 * (LOG_2PI + mean[1] + square * share), share

    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> AbstractPredictive:
        (m, mean_g), (v, var_g) = mean, var
        total = v + jnp.exp(mean_g + 0.5 * var_g)
        return LatentPredictive(m, total, NoiseLevel(), mean_g, var_g, _given_function(m, v, 1.0))


def _usable(var: Float[Array, "2 ..."]) -> Float[Array, "2 ..."]:
    """Variances that are large enough. Slopes in those that are raised are not lost."""
    least = jnp.asarray(SMALLEST, var.dtype).reshape(2, *(1,) * (var.ndim - 1))
    return var + jax.lax.stop_gradient(quadrature.at_least(var, least) - var)


def _given_function(mean: Array, var: Array, power: Power) -> dict[str, Array]:
    """The side data of `NoiseLevel`: the moments of the function, and the power."""
    exponent = jnp.broadcast_to(jnp.asarray(power, mean.dtype), mean.shape)
    return {"f_mean": mean, "f_var": var, "f_power": exponent}
