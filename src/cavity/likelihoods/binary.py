"""Binary classification: the Bernoulli likelihood."""

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.likelihoods.base import ONE_LATENT, AbstractLikelihood, LatentFunction
from cavity.likelihoods.by_quadrature import quadrature_log_power_mean, quadrature_tilted
from cavity.likelihoods.capabilities import Bound
from cavity.likelihoods.predictive.base import NONE, Side
from cavity.likelihoods.predictive.classes import BernoulliPredictive
from cavity.likelihoods.support import Support
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.quadrature import Feature, Tilted
from cavity.numerics.special import log_ndtr, log_ndtr_derivatives
from cavity.numerics.types import Array, PRNGKeyArray


class Bernoulli(AbstractLikelihood):
    r"""Two classes, $p(y = 1 \mid f) = \Phi(f)$ (probit) or $1 / (1 + e^{-f})$ (logit).

    Outputs are 0 and 1.

    Args:
        link: "probit" or "logit".

    References:
        Bui (2017), S24; Turner's slides, S12.
    """

    link: Literal["probit", "logit"] = eqx.field(static=True)

    support: ClassVar[Support] = Support.LABELS
    latent_functions: ClassVar[tuple[LatentFunction, ...]] = ONE_LATENT
    classes: ClassVar[int] = 2
    log_concave: ClassVar[bool] = True
    analytic_in_cone: ClassVar[bool] = True

    def __init__(self, link: Literal["probit", "logit"] = "probit"):
        if link not in ("probit", "logit"):
            raise ValueError(f'link must be "probit" or "logit", given {link!r}')
        self.link = link

    def log_prob(self, f: Array, y: Array, **side: Array) -> Array:
        signed = (2.0 * y - 1.0) * f
        return log_ndtr(signed) if self.link == "probit" else jax.nn.log_sigmoid(signed)

    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Array
    ) -> tuple[Feature, ...]:
        return ((jnp.zeros_like(mean), jnp.ones_like(mean)),)

    def analytic_strip(self, y: Array, **side: Array) -> Feature:
        # zeros of Φ at 1.9 ± 2.8i, poles of the logistic function at ± πi
        return jnp.zeros_like(y), jnp.full_like(y, 2.5 if self.link == "probit" else 2.8)

    @property
    def bounded(self) -> bool:
        """True if there is a Gaussian lower bound: for the logit."""
        return self.link == "logit"

    def bound(self, mean: Array, var: Array, y: Array, **side: Array) -> Bound:
        if not self.bounded:
            raise NotImplementedError("the probit link has no Gaussian lower bound")
        # σ(±f) ≥ σ(ξ) exp((±f - ξ)/2 - λ (f² - ξ²)),  λ = tanh(ξ/2)/4ξ,  ξ² = E f²
        xi = jnp.sqrt(mean**2 + var)
        small = xi < 1e-4
        safe = jnp.where(small, 1.0, xi)
        curve = jnp.where(small, 0.125 - xi**2 / 96.0, 0.25 * jnp.tanh(0.5 * safe) / safe)
        constant = jax.nn.log_sigmoid(xi) - 0.5 * xi + curve * xi**2
        return Bound(jnp.zeros_like(mean), y - 0.5, 2.0 * curve, constant)

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        if self.link == "probit" and is_exactly(power, 1.0):
            return log_ndtr((2.0 * y - 1.0) * mean / jnp.sqrt(1.0 + var))
        return quadrature_log_power_mean(self, mean, var, y, power, side)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        if not (self.link == "probit" and is_exactly(power, 1.0)):
            return quadrature_tilted(self, mean, var, y, power, side)
        sign, scale = 2.0 * y - 1.0, jnp.sqrt(1.0 + var)
        # r = φ(z)/Φ(z),  G = y r/√(1 + v),  H = -r (z + r)/(1 + v)
        log_mean, first, second = log_ndtr_derivatives(sign * mean / scale)
        return Tilted(log_mean, sign * first / scale, second / (1.0 + var))

    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> BernoulliPredictive:
        of_one = self.log_power_mean(mean, var, jnp.ones_like(mean), 1.0)
        of_zero = self.log_power_mean(mean, var, jnp.zeros_like(mean), 1.0)
        log_odds = of_one - of_zero
        p = jax.nn.sigmoid(log_odds)
        return BernoulliPredictive(p, p * jax.nn.sigmoid(-log_odds), log_odds)

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        p = jnp.exp(self.log_prob(f, jnp.ones_like(f)))
        return jax.random.bernoulli(key, p).astype(f.dtype)
