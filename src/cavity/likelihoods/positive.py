"""Positive outputs: gamma and exponential likelihoods."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import gammainc, gammaln

from cavity.likelihoods.log_link import AbstractLogLinear, capped_exp, log_link_moments
from cavity.likelihoods.support import Support
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import positive


class Gamma(AbstractLogLinear):
    r"""Positive outputs with mean $e^f$ and a constant coefficient of variation.

    $$p(y \mid f) = \frac{(k e^{-f})^k}{\Gamma(k)}\, y^{k - 1} \exp(-k y e^{-f})$$

    The standard deviation is the mean over $\sqrt k$. A shape below 1 has its largest density at
    zero.

    Args:
        shape: k.

    References:
        McCullagh and Nelder (1989), Generalized Linear Models, section 8.2.
    """

    shape: Float[Array, ""] = positive()

    support: ClassVar[Support] = Support.POSITIVE
    sign: ClassVar[float] = -1.0

    def __init__(self, shape: Any = 2.0):
        self.shape = shape

    def terms(self, y: Float[Array, "..."], **side: Array) -> tuple[Array, Array, Array]:
        k, log_y = self.shape, jnp.log(y)
        constant = k * jnp.log(k) - gammaln(k) + (k - 1.0) * log_y
        return constant, -k * jnp.ones_like(y), jnp.log(k) + log_y

    def cdf(self, y: Array, f: Array, **side: Array) -> Array:
        """Probability that the output is at most y given f."""
        return gammainc(self.shape, self.shape * capped_exp(jnp.log(y) - f))

    def predictive_moments(self, mean: Array, var: Array, **side: Array) -> tuple[Array, Array]:
        return log_link_moments(mean, var, linear=0.0, square=1.0 / self.shape)

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        log_gamma = jax.random.loggamma(key, self.shape, f.shape, f.dtype)
        return jnp.exp(f + log_gamma) / self.shape


class Exponential(AbstractLogLinear):
    r"""Waiting times, $p(y \mid f) = e^{-f} \exp(-y e^{-f})$, with mean $e^f$.

    References:
        McCullagh and Nelder (1989), Generalized Linear Models, section 8.2.
    """

    support: ClassVar[Support] = Support.POSITIVE
    sign: ClassVar[float] = -1.0

    def terms(self, y: Float[Array, "..."], **side: Array) -> tuple[Array, Array, Array]:
        return jnp.zeros_like(y), -jnp.ones_like(y), jnp.log(y)

    def cdf(self, y: Array, f: Array, **side: Array) -> Array:
        """Probability that the output is at most y given f."""
        return -jnp.expm1(-capped_exp(jnp.log(y) - f))

    def predictive_moments(self, mean: Array, var: Array, **side: Array) -> tuple[Array, Array]:
        return log_link_moments(mean, var, linear=0.0, square=1.0)

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        return jnp.exp(f) * jax.random.exponential(key, f.shape, f.dtype)
