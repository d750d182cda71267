"""Two classes."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.likelihoods.base import NONE, AbstractLikelihood, Bound
from cavity.likelihoods.predictive.latent import AbstractPredictive, Side, check_outputs, levels
from cavity.likelihoods.support import Support
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.quadrature import Landmark, Tilted
from cavity.numerics.special import log_ndtr, log_ndtr_derivatives
from cavity.numerics.types import Array, Float


class BernoulliPredictive(AbstractPredictive):
    """Probabilities of class 1; they are the means."""

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    log_odds: Float[Array, "..."]

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        return jax.nn.log_sigmoid((2.0 * y - 1.0) * self.log_odds)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        return jnp.where(levels(p, self.mean) > jax.nn.sigmoid(-self.log_odds), 1.0, 0.0)


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
    log_concave: ClassVar[bool] = True
    analytic_in_cone: ClassVar[bool] = True

    def __init__(self, link: Literal["probit", "logit"] = "probit"):
        if link not in ("probit", "logit"):
            raise ValueError(f'link must be "probit" or "logit", given {link!r}')
        self.link = link

    def log_prob(
        self, f: Float[Array, "..."], y: Float[Array, "..."], **side: Any
    ) -> Float[Array, "..."]:
        signed = (2.0 * y - 1.0) * f
        return log_ndtr(signed) if self.link == "probit" else jax.nn.log_sigmoid(signed)

    def landmarks(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Any
    ) -> tuple[Landmark, ...]:
        return ((jnp.zeros_like(mean), jnp.ones_like(mean)),)

    def analytic_strip(self, y: Array, **side: Any) -> Landmark:
        # zeros of Φ at 1.9 ± 2.8i, poles of the logistic function at ± πi
        return jnp.zeros_like(y), jnp.full_like(y, 2.5 if self.link == "probit" else 2.8)

    @property
    def has_bound(self) -> bool:
        return self.link == "logit"

    def bound(self, mean: Array, var: Array, y: Array, **side: Any) -> Bound:
        if not self.has_bound:
            raise NotImplementedError("the probit link has no Gaussian lower bound")
        # σ(±f) ≥ σ(ξ) exp((±f - ξ)/2 - λ (f² - ξ²)),  λ = tanh(ξ/2)/4ξ,  ξ² = E f²
        reach = jnp.sqrt(mean**2 + var)
        near = reach < 1e-4
        safe = jnp.where(near, 1.0, reach)
        curve = jnp.where(near, 0.125 - reach**2 / 96.0, 0.25 * jnp.tanh(0.5 * safe) / safe)
        constant = jax.nn.log_sigmoid(reach) - 0.5 * reach + curve * reach**2
        return Bound(jnp.zeros_like(mean), y - 0.5, 2.0 * curve, constant)

    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        if self.link == "probit" and is_exactly(power, 1.0):
            return log_ndtr((2.0 * y - 1.0) * mean / jnp.sqrt(1.0 + var))
        return super().log_power_mean(mean, var, y, power, side)

    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        if not (self.link == "probit" and is_exactly(power, 1.0)):
            return super().tilted(mean, var, y, power, side)
        sign, scale = 2.0 * y - 1.0, jnp.sqrt(1.0 + var)
        # r = φ(z)/Φ(z),  G = y r/√(1 + v),  H = -r (z + r)/(1 + v)
        log_mean, first, second = log_ndtr_derivatives(sign * mean / scale)
        return Tilted(log_mean, sign * first / scale, second / (1.0 + var))

    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> BernoulliPredictive:
        one = jnp.ones_like(mean)
        for_one = self.log_power_mean(mean, var, one, 1.0)
        for_zero = self.log_power_mean(mean, var, jnp.zeros_like(mean), 1.0)
        log_odds = for_one - for_zero
        chance, rest = jax.nn.sigmoid(log_odds), jax.nn.sigmoid(-log_odds)
        return BernoulliPredictive(chance, chance * rest, log_odds)
