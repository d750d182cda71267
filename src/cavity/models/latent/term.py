r"""The term of a row whose input is a Gaussian variable.

With a site of its own on the input, whose cavity $q^{\setminus}$ is, the row is one factor of
function and input, as the row of a deep Gaussian process is:

$$\log M_a = \tfrac1a \log \mathbb E_{q^{\setminus}(\mathbf x)}\, \mathbb E_{f} \prod_p
p(y_p \mid f_p(\mathbf x))^a$$

With a variational posterior of the input, the logarithm is averaged over it: $\mathbb E_{q(\mathbf
x)} \log M_a(\mathbf x)$, where the power mean is over the functions at $\mathbf x$.

References:
    Bui (2017), S47, S49 and S50; van der Wilk (2018), item 79.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import AbstractPropagation, LayerFunctions, Spread
from cavity.inference.variables.inducing_view import InducingView
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.deep.layer import Layer
from cavity.models.deep.term import AbstractFunctionTerm, Beliefs, terms_at
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import log_power_mean
from cavity.numerics.types import Array, Float


class LatentInputTerm(AbstractFunctionTerm):
    """The log power mean of a likelihood of functions at a latent input.

    Attributes:
        layer: the functions.
        views: how rows see the inducing variables of each.
        likelihood: the density of outputs.
        propagation: how a Gaussian input goes through the functions.
        averaged: whether inputs have a variational posterior, over which logarithms are averaged.
    """

    layer: Layer
    views: tuple[InducingView, ...]
    likelihood: AbstractLikelihood
    propagation: AbstractPropagation
    averaged: bool = eqx.field(static=True)

    @property
    def count(self) -> int:
        return len(self.views)

    def terms(
        self, functions: Beliefs, others: tuple[Any, ...], rows: Rows, power: Power
    ) -> Float[Array, " N"]:
        (x,) = others
        layer = self.layer.process(self.views, functions)
        inputs = Spread(x.mean[None], x.var[None])
        how = (self.likelihood, self.propagation)
        if self.averaged:
            return averaged_term(layer, *how, inputs, rows, power)
        z, log_weights = points_of(self.propagation, inputs, rows)
        values = self.propagation.through(layer, inputs, rows.x, z)
        terms = terms_at(self.likelihood, values, rows, power)
        weights = jnp.broadcast_to(log_weights[:, None], terms.shape)
        return log_power_mean(terms, weights, power)


def averaged_term(
    layer: LayerFunctions,
    likelihood: AbstractLikelihood,
    propagation: AbstractPropagation,
    inputs: Spread,
    rows: Rows,
    power: Power,
) -> Float[Array, " N"]:
    """The log power means of rows at functions of their inputs, averaged over the inputs.

    Args:
        layer: the functions.
        likelihood: the density of outputs.
        propagation: how a Gaussian input goes through the functions.
        inputs: one Gaussian per row.
        rows: the data.
        power: the power.
    """
    z, log_weights = points_of(propagation, inputs, rows)
    values, log_weights = propagation.averaged(layer, inputs, rows.x, z, log_weights)
    terms = terms_at(likelihood, values, rows, power)
    return jnp.exp(log_weights) @ terms


def points_of(
    propagation: AbstractPropagation, inputs: Spread, rows: Rows
) -> tuple[Float[Array, "K N Q"], Float[Array, " K"]]:
    """Standard normal values that stand for the inputs of rows, and their log weights."""
    _, count, columns = inputs.mean.shape
    return propagation.points(columns, count, rows.index, inputs.mean.dtype)
