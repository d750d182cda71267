"""Likelihoods that are not Gaussian, by quadrature: what the general row is for."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp

from cavity.likelihoods import AbstractLikelihood, NormalPredictive, Support
from cavity.likelihoods.base import ONE_LATENT
from cavity.likelihoods.by_quadrature import quadrature_tilted
from cavity.numerics.types import Array, Float
from cavity.parameters import positive

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / np.sqrt(2.0 * np.pi)


class Probit(AbstractLikelihood):
    """p(y | f) = Phi(y f / scale) with y in {-1, 1}: log-concave in f."""

    scale: Float[Array, ""] = positive(output=1)

    support: ClassVar[Support] = Support.REAL
    latent_functions: ClassVar = ONE_LATENT
    log_concave: ClassVar[bool] = True

    def log_prob(self, f, y):
        return log_ndtr(y * f / self.scale)

    def features(self, mean, var, y, power):
        return ((jnp.zeros_like(y), jnp.broadcast_to(self.scale, y.shape)),)

    def log_power_mean(self, mean, var, y, power, side):
        f = mean[..., None] + jnp.sqrt(var)[..., None] * NODES
        logs = self.log_prob(f, y[..., None])
        mean_log = jnp.sum(logs * WEIGHTS, axis=-1)
        if isinstance(power, float) and power == 0.0:
            return mean_log
        # log M = mean log + log E exp(a (log - mean log)) / a, with its limit at a = 0
        a = jnp.where(power == 0.0, 1.0, power)
        above = (logs - mean_log[..., None]) * jnp.broadcast_to(a, mean_log.shape)[..., None]
        excess = logsumexp(above, axis=-1, b=WEIGHTS) / a
        return mean_log + jnp.where(power == 0.0, 0.0, excess)

    def tilted(self, mean, var, y, power, side):
        return quadrature_tilted(self, mean, var, y, power, side)

    def predictive(self, mean, var, side):
        return NormalPredictive(mean, var)
