"""Inputs of rows as Gaussian variables: independent standard normal a priori."""

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractBelief, AbstractVariable, Messages
from cavity.inference.graph.sites import ScalarSites
from cavity.numerics.types import Array, Float, Scalar


class InputBelief(AbstractBelief):
    """Independent Gaussians for the coordinates of every row's input.

    Attributes:
        mean: means.
        var: variances.
        log_normaliser: of prior times messages; zero where the belief is given itself.
    """

    mean: Float[Array, "N Q"]
    var: Float[Array, "N Q"]
    log_normaliser: Scalar


class Inputs(AbstractVariable):
    """Inputs with a standard normal prior, whose rows send messages."""

    def belief(self, messages: Messages) -> InputBelief:
        precision = 1.0 + messages.precision
        mean = messages.shift / precision
        value = 0.5 * messages.shift * mean - 0.5 * jnp.log(precision)
        return InputBelief(mean, 1.0 / precision, jnp.sum(value) + jnp.sum(messages.log_scale))


def no_beliefs() -> InputBelief:
    """Empty belief, for rows whose beliefs are functions of the rows."""
    nothing = jnp.zeros((0, 0))
    return InputBelief(nothing, nothing, jnp.zeros(()))


def divergence(mean: Float[Array, "*rows Q"], var: Float[Array, "*rows Q"]) -> Array:
    """Divergences from the standard normal prior, one for each coordinate, in nats."""
    return 0.5 * (mean**2 + var - 1.0 - jnp.log(var))


class InputMoments(eqx.Module):
    """A belief about inputs as free numbers, which an optimiser moves.

    Attributes:
        mean: means.
        log_deviation: logarithms of standard deviations; None for point estimates.
    """

    mean: Float[Array, "N Q"]
    log_deviation: Float[Array, "N Q"] | None

    def belief(self) -> InputBelief:
        """The belief itself; its divergence from the prior comes with the rows."""
        zero, raw = jnp.zeros((), self.mean.dtype), self.log_deviation
        var = jnp.zeros_like(self.mean) if raw is None else jnp.exp(2.0 * raw)
        return InputBelief(self.mean, var, zero)

    def sites(self, presence: Float[Array, "N Q"]) -> ScalarSites:
        """The sites that make these beliefs of the prior; of precision zero for absent rows."""
        assert self.log_deviation is not None
        precision = jnp.exp(-2.0 * self.log_deviation)
        return ScalarSites(presence * precision * self.mean, presence * (precision - 1.0))
