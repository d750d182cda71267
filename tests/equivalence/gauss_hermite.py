"""Likelihoods that are not Gaussian, by quadrature: what the general row is for."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp

from cavity.likelihoods import AbstractLikelihood, NormalPredictive
from cavity.numerics.types import Array, Float
from cavity.parameters import positive

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / np.sqrt(2.0 * np.pi)


class Probit(AbstractLikelihood):
    """p(y | f) = Phi(y f / scale) with y in {-1, 1}: log-concave in f."""

    scale: Float[Array, ""] = positive(output=1)

    def log_prob(self, f, y, noise):
        return log_ndtr(y * f / self.scale)

    def log_power_mean(self, mean, var, y, noise, power):
        f = mean[..., None] + jnp.sqrt(var)[..., None] * NODES
        logs = self.log_prob(f, y[..., None], noise)
        mean_log = jnp.sum(logs * WEIGHTS, axis=-1)
        if isinstance(power, float) and power == 0.0:
            return mean_log
        # log M = mean log + log E exp(a (log - mean log)) / a, with its limit at a = 0
        a = jnp.where(power == 0.0, 1.0, power)
        above = (logs - mean_log[..., None]) * jnp.broadcast_to(a, mean_log.shape)[..., None]
        excess = logsumexp(above, axis=-1, b=WEIGHTS) / a
        return mean_log + jnp.where(power == 0.0, 0.0, excess)

    def predictive(self, mean, var, noise=None):
        return NormalPredictive(mean, var)
