"""Gaussian noise whose level is a function of the inputs."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

from cavity.likelihoods.base import NONE, AbstractLikelihood
from cavity.likelihoods.predictive.latent import AbstractPredictive, LatentPredictive, Side
from cavity.likelihoods.support import Support
from cavity.numerics import quadrature
from cavity.numerics.gaussian import LOG_2PI
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.quadrature import Landmark, Tilted
from cavity.numerics.types import Array, Float


class NoiseLevel(AbstractLikelihood):
    r"""An output given its log noise variance g, where the function has been averaged over.

    $$\tfrac1a \log \mathbb E_{\mathcal N(f; m, v)}[\mathcal N(y; f, e^g)^a]$$

    with m, v and a in the side data `f_mean`, `f_var` and `f_power`.
    """

    support: ClassVar[Support] = Support.REAL
    side: ClassVar[tuple[str, ...]] = ("f_mean", "f_var", "f_power")

    def log_prob(
        self, f: Float[Array, "..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        m, v, a = side["f_mean"], side["f_var"], side["f_power"]
        # log(1 + a v/s)/a, which bears variances s beyond all numbers
        spread = jax.nn.softplus(jnp.log(a * v) - f) / a
        return -0.5 * (LOG_2PI + f + (y - m) ** 2 / (jnp.exp(f) + a * v) + spread)

    def landmarks(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Any
    ) -> tuple[Landmark, ...]:
        one = jnp.ones_like(mean)
        square = (y - side["f_mean"]) ** 2
        knees = (square + side["f_var"], side["f_power"] * side["f_var"])
        places = tuple((jnp.log(knee + 1e-30), one) for knee in knees)

        def slope(g: Array) -> Array:
            return jax.jvp(lambda at: self.log_prob(at, y, **side), (g,), (jnp.ones_like(g),))[1]

        return (*places, quadrature.mode(slope, mean, var, power))

    def cdf(self, y: Array, f: Array, **side: Any) -> Array:
        """Probability that the output is at most y given the log noise variance."""
        return ndtr((y - side["f_mean"]) / jnp.sqrt(side["f_var"] + jnp.exp(f)))


class HeteroscedasticGaussian(AbstractLikelihood):
    r"""Gaussian noise with a variance of its own at every input, $p(y) = \mathcal N(y; f, e^g)$.

    The model has two latent functions, f and the logarithm g of the noise variance, each with a
    kernel and a mean: `GP((kernel_f, kernel_g), HeteroscedasticGaussian(), mean=(mean_f,
    mean_g))`. A `Constant` mean of g is the logarithm of a typical noise variance. The posterior
    treats the two as independent; f is integrated in closed form, g by quadrature.

    References:
        Bui (2017), S28.
    """

    support: ClassVar[Support] = Support.REAL

    @property
    def latents(self) -> int:
        return 2

    def log_prob(
        self, f: Float[Array, "2 ..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        f, g = f
        return -0.5 * (LOG_2PI + g + (y - f) ** 2 * jnp.exp(-g))

    def log_power_mean(
        self,
        mean: Float[Array, "2 ..."],
        var: Float[Array, "2 ..."],
        y: Float[Array, "..."],
        power: Power,
        side: Side = NONE,
    ) -> Float[Array, "..."]:
        (m, mean_g), (v, var_g) = mean, var
        if is_exactly(power, 0.0):
            # E e^-g = exp(-m + v/2)
            return self._at_zero(mean, var, y)[0]
        zero, a = _safe_power(power, m)
        inner = {"f_mean": m, "f_var": v, "f_power": a}
        found = NoiseLevel().log_power_mean(mean_g, var_g, y, a, inner)
        return jnp.where(zero, self._at_zero(mean, var, y)[0], found)

    def tilted(
        self,
        mean: Float[Array, "2 ..."],
        var: Float[Array, "2 ..."],
        y: Float[Array, "..."],
        power: Power,
        side: Side = NONE,
    ) -> Tilted:
        if is_exactly(power, 0.0):
            return self._tilted_at_zero(mean, var, y)
        (m, mean_g), (v, var_g) = mean, var
        level = NoiseLevel()
        zero, a = _safe_power(power, m)
        inner = {"f_mean": m, "f_var": v, "f_power": a}
        measure = level.measure(mean_g, var_g, y, a, inner)
        value = level.log_prob(measure.nodes, y, **inner)
        of_g = quadrature.tilted_moments(value, measure, mean_g, var_g, a)
        # f given g is Gaussian: G = E r/(s + av),  H = a Var r/(s + av) - E 1/(s + av)
        weight = jax.nn.softmax(a * value + measure.log_weight, axis=0)
        precision = 1.0 / (jnp.exp(measure.nodes) + a * v)
        each = (y - m) * precision
        slope = jnp.sum(weight * each, axis=0)
        curvature = a * jnp.sum(weight * (each - slope) ** 2, axis=0)
        curvature = curvature - jnp.sum(weight * precision, axis=0)
        slopes = jnp.stack([slope, of_g.slope])
        found = Tilted(of_g.log_mean, slopes, jnp.stack([curvature, of_g.curvature]))
        limit = self._tilted_at_zero(mean, var, y)
        return jax.tree.map(lambda x, at: jnp.where(zero, at, x), found, limit)

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

    def predictive(
        self, mean: Float[Array, "2 ..."], var: Float[Array, "2 ..."], side: Side = NONE
    ) -> AbstractPredictive:
        (m, mean_g), (v, var_g) = mean, var
        inner = {"f_mean": m, "f_var": v, "f_power": jnp.ones_like(m)}
        total = v + jnp.exp(mean_g + 0.5 * var_g)
        return LatentPredictive(m, total, NoiseLevel(), mean_g, var_g, inner)


def _safe_power(power: Power, like: Array) -> tuple[Array, Array]:
    """Whether powers are zero, and the powers with 1 in the place of those."""
    a = jnp.broadcast_to(jnp.asarray(power, like.dtype), like.shape)
    return a <= 0.0, jnp.where(a <= 0.0, 1.0, a)
