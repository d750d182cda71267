"""Ordinal regression: ordered classes, such as grades."""

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
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.quadrature import Feature, Tilted
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import positive, real

# The outermost edges, beyond any latent value.
_OUTERMOST = 1e9
# Terms of the series for the logarithm of a normal tail.
_TAIL_TERMS = 8


class OrdinalProbit(AbstractLikelihood):
    r"""Ordered classes 0, ..., C - 1 between edges: ordinal regression with a probit link.

    $$p(y = k \mid f) = \Phi(b_{k+1} - f) - \Phi(b_k - f)$$

    with $b_0 = -\infty$ and $b_C = \infty$. The edges in between are learned; the parameters are
    the first edge and the positive gaps to the next ones, so that edges stay in order. One edge
    at 0 is `Bernoulli("probit")`. A constant prior mean is equivalent to a shift of all edges:
    fix one of the two (`cavity.means.Zero()`).

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
        values: Any = np.asarray(edges, np.float64)
        good = values.ndim == 1 and values.size > 0 and np.all(np.isfinite(values))
        if not good or np.any(np.diff(values) <= 0.0):
            raise ValueError(
                "edges must be one or more finite numbers in increasing order, one fewer than "
                f"there are classes, given {edges!r}"
            )
        self.first, self.gaps = values[0], np.diff(values)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.gaps.shape[-1] + 2

    @property
    def edges(self) -> Float[Array, " edges"]:
        """The edges between classes, increasing."""
        steps = jnp.concatenate([jnp.zeros_like(self.gaps, shape=(1,)), jnp.cumsum(self.gaps)])
        return self.first + steps

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        low, high = self._ends(y)
        return _log_between(low - f, high - f)

    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Array
    ) -> tuple[Feature, ...]:
        low, high = self._ends(y)
        first, last = (
            jnp.where(low > -_OUTERMOST, low, high),
            jnp.where(high < _OUTERMOST, high, low),
        )
        ones = jnp.ones_like(mean)
        return (first * ones, ones), (last * ones, ones)

    def initial_latents(self, y: np.ndarray, **side: np.ndarray) -> np.ndarray:
        """The midpoints of the classes; for the outermost, one unit beyond their edge."""
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
        # the log probability of an interval has a smaller curvature than the log Gaussian
        return Tilted(log_mean, slope / scale, jnp.clip(curvature, -1.0, 0.0) / (1.0 + var))

    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> ClassPredictive:
        numbers = jnp.arange(self.classes, dtype=mean.dtype)
        return class_predictive(self.log_power_mean(mean[..., None], var[..., None], numbers, 1.0))

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        noisy = f + jax.random.normal(key, f.shape, f.dtype)
        return jnp.sum(noisy[..., None] > self.edges, axis=-1).astype(f.dtype)

    def _ends(self, y: Array) -> tuple[Array, Array]:
        """The edges below and above each class."""
        edges = self.edges
        outermost = jnp.full_like(edges, _OUTERMOST, shape=(1,))
        padded = jnp.concatenate([-outermost, edges, outermost])
        index = jnp.asarray(y).astype(int)
        return padded[index], padded[index + 1]


def _log_between(low: Array, high: Array) -> Array:
    """Log probability of a standard normal between two numbers, accurate in the tails."""
    # in the lower tail both probabilities are accurate
    flip = low + high > 0.0
    low, high = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    below, upto = log_ndtr(low, _TAIL_TERMS), log_ndtr(high, _TAIL_TERMS)
    ratio = jnp.minimum(below - upto, -float(jnp.finfo(low.dtype).tiny))
    is_close = ratio > -0.7
    # log(1 - exp(x)), by expm1 for x near zero
    close = jnp.log(-jnp.expm1(jnp.where(is_close, ratio, -1.0)))
    return upto + jnp.where(is_close, close, jnp.log1p(-jnp.exp(jnp.where(is_close, -1.0, ratio))))
