"""Ordered classes, such as grades."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from cavity.likelihoods.base import ONE_LATENT, AbstractLikelihood, LatentFunction
from cavity.likelihoods.by_quadrature import quadrature_log_power_mean, quadrature_tilted
from cavity.likelihoods.predictive.base import NONE, Side
from cavity.likelihoods.predictive.classes import ClassPredictive, class_predictive
from cavity.likelihoods.support import Support
from cavity.numerics.gaussian import LOG_2PI
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.quadrature import Feature, Tilted
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import positive, real

# Where the outer edges are, far beyond any latent value.
FAR = 1e9
# Terms of the series for the logarithm of a normal tail.
TERMS = 8


class OrdinalProbit(AbstractLikelihood):
    r"""Ordered classes 0, 1, ..., C - 1 between edges, seen through noise of unit variance.

    $$p(y = k \mid f) = \Phi(b_{k+1} - f) - \Phi(b_k - f)$$

    with $b_0 = -\infty$ and $b_C = \infty$. The edges between are learned, in order whatever
    their values: what is stored is the first of them and the gaps to the next. One edge at 0 is
    `Bernoulli("probit")`. A constant prior mean and a shift of all edges are the same thing: fix
    one of them (`cavity.means.Zero()`).

    Args:
        edges: the C - 1 edges between classes, increasing.

    References:
        Chu and Ghahramani (2005), Gaussian processes for ordinal regression, eq. 3.
    """

    first: Float[Array, ""] = real()
    gaps: Float[Array, " gaps"] = positive()

    support: ClassVar[Support] = Support.LABELS
    latent_functions: ClassVar[tuple[LatentFunction, ...]] = ONE_LATENT
    log_concave: ClassVar[bool] = True

    def __init__(self, edges: Any):
        given: Any = np.asarray(edges, np.float64)
        good = given.ndim == 1 and given.size > 0 and np.all(np.isfinite(given))
        if not good or np.any(np.diff(given) <= 0.0):
            raise ValueError(
                "edges must be one or more finite numbers in increasing order, one fewer than "
                f"there are classes, given {edges!r}"
            )
        self.first, self.gaps = given[0], np.diff(given)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.gaps.shape[-1] + 2

    @property
    def edges(self) -> Float[Array, " edges"]:
        """The edges between classes, increasing."""
        steps = jnp.concatenate([jnp.zeros_like(self.gaps, shape=(1,)), jnp.cumsum(self.gaps)])
        return self.first + steps

    def log_prob(
        self, f: Float[Array, "..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        low, high = self._ends(y)
        return _log_between(low - f, high - f)

    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Any
    ) -> tuple[Feature, ...]:
        low, high = self._ends(y)
        first, last = jnp.where(low > -FAR, low, high), jnp.where(high < FAR, high, low)
        one = jnp.ones_like(mean)
        return (first * one, one), (last * one, one)

    def initial_latents(self, y: np.ndarray, **side: Any) -> np.ndarray:
        """The middles of the classes; of the outer ones a unit beyond their edge."""
        edges = np.asarray(self.edges, np.float64)
        middles = [edges[0] - 1.0, *(0.5 * (edges[1:] + edges[:-1])), edges[-1] + 1.0]
        return np.array(middles)[np.asarray(y).astype(int)]

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        if not is_exactly(power, 1.0):
            return quadrature_log_power_mean(self, mean, var, y, power, side)
        scale, (low, high) = jnp.sqrt(1.0 + var), self._ends(y)
        return _log_between((low - mean) / scale, (high - mean) / scale)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        if not is_exactly(power, 1.0):
            return quadrature_tilted(self, mean, var, y, power, side)
        scale, (low, high) = jnp.sqrt(1.0 + var), self._ends(y)
        low, high = (low - mean) / scale, (high - mean) / scale
        log_mean = _log_between(low, high)
        # G = (φ(l) - φ(u)) / P s,  H = (l φ(l) - u φ(u)) / P s² - G²
        at_low, at_high = (jnp.exp(-0.5 * (x**2 + LOG_2PI) - log_mean) for x in (low, high))
        slope = at_low - at_high
        curvature = low * at_low - high * at_high - slope**2
        # the logarithm of a Gaussian over an interval bends by less than that of the Gaussian
        return Tilted(log_mean, slope / scale, jnp.clip(curvature, -1.0, 0.0) / (1.0 + var))

    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> ClassPredictive:
        numbers = jnp.arange(self.classes, dtype=mean.dtype)
        return class_predictive(self.log_power_mean(mean[..., None], var[..., None], numbers, 1.0))

    def sample(self, key: PRNGKeyArray, f: Array, **side: Any) -> Array:
        noisy = f + jax.random.normal(key, f.shape, f.dtype)
        return jnp.sum(noisy[..., None] > self.edges, axis=-1).astype(f.dtype)

    def _ends(self, y: Array) -> tuple[Array, Array]:
        """The edges below and above each class."""
        edges = self.edges
        far = jnp.full_like(edges, FAR, shape=(1,))
        padded = jnp.concatenate([-far, edges, far])
        index = jnp.asarray(y).astype(int)
        return padded[index], padded[index + 1]


def _log_between(low: Array, high: Array) -> Array:
    """Log probability that a standard normal lies between two numbers, also far out."""
    # on the lower side both probabilities keep their digits
    flip = low + high > 0.0
    low, high = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    below, upto = log_ndtr(low, TERMS), log_ndtr(high, TERMS)
    ratio = jnp.minimum(below - upto, -float(jnp.finfo(low.dtype).tiny))
    near = ratio > -0.7
    # log(1 - exp(x)), by expm1 for x near zero
    close = jnp.log(-jnp.expm1(jnp.where(near, ratio, -1.0)))
    return upto + jnp.where(near, close, jnp.log1p(-jnp.exp(jnp.where(near, -1.0, ratio))))
