"""The interface of predictive distributions, and checks of what they are asked."""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from cavity.likelihoods.support import Support
from cavity.numerics.types import Array, Bool, Float

# Side data by name, one value per row, in shapes that broadcast against rows and outputs.
Side = Mapping[str, Array]
NONE: Side = {}


class AbstractPredictive(eqx.Module):
    """The predictive distribution of outputs, one per row (and output).

    To implement:
        fields `mean` and `var`, `support`, `log_density(y)`, `cdf(y)` and `quantile(p)`.
    """

    mean: eqx.AbstractVar[Float[Array, "..."]]
    var: eqx.AbstractVar[Float[Array, "..."]]

    @property
    @abc.abstractmethod
    def support(self) -> Support:
        """The values that outputs may take."""

    @abc.abstractmethod
    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log predictive density of y, in nats per unit of y, entry by entry."""

    @abc.abstractmethod
    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Probability that outputs are at most y."""

    @abc.abstractmethod
    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        """The values below which y falls with probability p; a leading axis for several p."""


def check_outputs(y: Array, mean: Array) -> None:
    """Raises ValueError unless there is one output for each distribution."""
    if jnp.shape(y) != mean.shape:
        raise ValueError(
            f"y must have the shape of the predictions, {mean.shape}, given shape {jnp.shape(y)}"
        )


def check_levels(p: float | Array) -> None:
    """Raises ValueError for numbers that are no probabilities strictly between 0 and 1."""
    if isinstance(p, Tracer):
        return
    values = np.asarray(p, float)
    if not np.all((values > 0.0) & (values < 1.0)):
        raise ValueError(f"quantiles are asked for by probabilities in (0, 1), given {p}")


def levels(p: float | Array, mean: Array) -> Array:
    """Probabilities, checked, with axes that broadcast against the predictions."""
    check_levels(p)
    probabilities = jnp.asarray(p, mean.dtype)
    return probabilities.reshape(probabilities.shape + (1,) * mean.ndim)


def possible(likelihood: Any, y: Array) -> tuple[Bool[Array, "..."], Array]:
    """True where outputs are possible, and the outputs with a possible one in place of others."""
    inside = likelihood.accepts(y)
    return inside, jnp.where(inside, y, 0.5 if likelihood.support is Support.UNIT else 1.0)
