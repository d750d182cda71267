"""Proportions: the beta likelihood."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, digamma, gammaln

from cavity.likelihoods.by_quadrature import AbstractQuadratureLikelihood
from cavity.likelihoods.support import Support
from cavity.numerics import quadrature
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Feature
from cavity.numerics.tilted_mode import tilted_mode
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters import positive


class Beta(AbstractQuadratureLikelihood):
    r"""Beta-distributed proportions with mean $\mu = 1 / (1 + e^{-f})$.

    $$p(y \mid f) = \frac{\Gamma(c)}{\Gamma(\mu c)\, \Gamma((1 - \mu) c)}\,
    y^{\mu c - 1} (1 - y)^{(1 - \mu) c - 1}$$

    The variance is $\mu (1 - \mu) / (1 + c)$. Outputs of exactly 0 or 1 have no density.

    Args:
        concentration: c; a large one means a small variance.

    References:
        Ferrari and Cribari-Neto (2004), Beta regression for modelling rates and proportions,
        eq. 4.
    """

    concentration: Float[Array, ""] = positive()

    support: ClassVar[Support] = Support.UNIT

    def __init__(self, concentration: Any = 10.0):
        self.concentration = concentration

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        c = self.concentration
        first = self._log_normaliser(f) + (c * jax.nn.sigmoid(f) - 1.0) * jnp.log(y)
        second = self._log_normaliser(-f) + (c * jax.nn.sigmoid(-f) - 1.0) * jnp.log1p(-y)
        return gammaln(c) + first + second

    def _log_normaliser(self, f: Array) -> Array:
        """Minus the log gamma function of the concentration times the sigmoid of f."""
        c = self.concentration
        # log Γ(x) = log Γ(1 + x) - log x is accurate as x underflows
        return jnp.log(c) + jax.nn.log_sigmoid(f) - gammaln(1.0 + c * jax.nn.sigmoid(f))

    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Array
    ) -> tuple[Feature, ...]:
        c, zero = self.concentration, jnp.zeros_like(mean)
        # the approximate peak, with the Fisher information of c Bernoulli outcomes
        centre = jnp.log(y + 0.5 / c) - jnp.log1p(0.5 / c - y)
        share = jax.nn.sigmoid(centre)
        information = jnp.maximum(power, 1e-6) * c * share * (1.0 - share)
        width = 1.0 / jnp.sqrt(1.0 + information)
        peak = tilted_mode(lambda f: self._slope(f, y), mean, var, power)
        return (centre + zero, width + zero), (zero, zero + 1.0), peak

    def _slope(self, f: Array, y: Array) -> Array:
        """The derivative of the log density in f."""
        share, complement = jax.nn.sigmoid(f), jax.nn.sigmoid(-f)
        a, b = self.concentration * share, self.concentration * complement
        # x ψ(x) = x ψ(1 + x) - 1 is accurate as x underflows
        odds = jnp.log(y) - jnp.log1p(-y)
        first = a * (odds - digamma(1.0 + a)) + 1.0
        return complement * first + share * (b * digamma(1.0 + b) - 1.0)

    def cdf(self, y: Array, f: Array, **side: Array) -> Array:
        """Probability that the output is at most y given f."""
        c, tiny = self.concentration, float(jnp.finfo(jnp.asarray(f).dtype).tiny)
        a, b = c * jax.nn.sigmoid(f), c * jax.nn.sigmoid(-f)
        return betainc(jnp.maximum(a, tiny), jnp.maximum(b, tiny), y)

    def predictive_moments(self, mean: Array, var: Array, **side: Array) -> tuple[Array, Array]:
        m, v = _sigmoid_moments(mean, var)
        return m, v + (m * (1.0 - m) - v) / (1.0 + self.concentration)

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        c, limits = self.concentration, jnp.finfo(f.dtype)
        share = jax.random.beta(key, c * jax.nn.sigmoid(f), c * jax.nn.sigmoid(-f), f.shape)
        return jnp.clip(share, float(limits.tiny), 1.0 - 0.5 * float(limits.eps))


def _sigmoid_moments(mean: Array, var: Array) -> tuple[Array, Array]:
    """Mean and variance of the sigmoid of a Gaussian value."""
    ones = jnp.ones_like(mean)
    edges = quadrature.feature_edges(mean, var, ((0.0 * ones, ones),))
    nodes, log_weight = quadrature.gaussian_measure(mean, var, edges)
    w = jax.nn.softmax(log_weight, axis=0)
    share = jax.nn.sigmoid(nodes)
    average = jnp.sum(w * share, axis=0)
    return average, jnp.sum(w * (share - average) ** 2, axis=0)
