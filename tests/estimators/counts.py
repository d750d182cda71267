"""A likelihood of counts of one's own, with exposures, that knows nothing but its density."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from cavity.likelihoods import AbstractQuadratureLikelihood, Support


class Counts(AbstractQuadratureLikelihood):
    """Poisson counts with rate `exposure` times exp(f)."""

    support = Support.COUNTS
    side = ("exposure",)
    log_concave = True

    def log_prob(self, f, y, exposure=1.0, **side):
        return y * (f + jnp.log(exposure)) - exposure * jnp.exp(f) - gammaln(y + 1.0)

    def initial_latents(self, y, exposure=1.0, **side):
        return np.log((y + 0.5) / exposure)
