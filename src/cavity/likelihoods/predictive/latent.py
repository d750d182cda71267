"""Predictive distributions from the distribution function given a Gaussian latent value."""

from typing import Any, cast

import jax.numpy as jnp

from cavity.likelihoods.capabilities import features
from cavity.likelihoods.predictive.base import (
    AbstractPredictive,
    Side,
    check_outputs,
    possible,
)
from cavity.likelihoods.predictive.quantiles import inverted_quantile
from cavity.likelihoods.support import Support
from cavity.numerics.jit import compiled
from cavity.numerics.quadrature import feature_edges, gaussian_measure
from cavity.numerics.types import Array, Float


class LatentPredictive(AbstractPredictive):
    """Outputs of a likelihood whose distribution function given f has a closed form.

    Attributes:
        mean: means of y.
        var: variances of y.
        likelihood: has `cdf(y, f)`.
        latent_mean: means of f.
        latent_var: variances of f.
        side: side data of the rows.
    """

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    likelihood: Any
    latent_mean: Float[Array, "..."]
    latent_var: Float[Array, "..."]
    side: dict[str, Array]

    @property
    def support(self) -> Support:
        return self.likelihood.support

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        return log_density_within_support(
            self.likelihood, self.latent_mean, self.latent_var, y, self.side
        )

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        m, v = self.latent_mean, self.latent_var
        # in f the distribution function has its step at the peak of the density
        peak = (features(self.likelihood, m, v, y, 1.0, self.side) or ())[:1]
        f, log_weight = gaussian_measure(m, v, feature_edges(m, v, peak))
        return jnp.sum(jnp.exp(log_weight) * self.cdf_given(f, y), axis=0)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        return inverted_quantile(self, p)

    def log_density_given(self, f: Array, y: Array) -> Array:
        """Log density of y given f; minus infinity for an output outside the support."""
        inside, safe = possible(self.likelihood, y)
        found: Any = self.likelihood.log_prob(f, safe, **self.side)
        return cast(Array, jnp.where(inside, found, -jnp.inf))

    def cdf_given(self, f: Array, y: Array) -> Array:
        """Probability that outputs are at most y given f."""
        return self.likelihood.cdf(y, f, **self.side)


@compiled
def log_density_within_support(
    likelihood: Any, mean: Array, var: Array, y: Array, side: Side
) -> Array:
    """Log predictive density; minus infinity for an output outside the support."""
    inside, safe = possible(likelihood, y)
    found = likelihood.log_power_mean(mean, var, safe, 1.0, side)
    return cast(Array, jnp.where(inside, found, -jnp.inf))
