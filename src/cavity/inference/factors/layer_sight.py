"""Sight of a layer of functions: inputs and outputs among the hidden values of rows."""

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.factors.averaged import AbstractSight, GaussianRows
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.layered import LayeredBelief
from cavity.kernels.expectations import GaussianInputs
from cavity.numerics.types import Array, Float


class LayerSight(AbstractSight):
    """A layer sees the values of the layer below, and its own.

    Attributes:
        number: of the layer, from 0.
        last: whether its values are the outputs of the rows.
        skips: whether the inputs of the rows follow the values below, as columns.
    """

    number: int = eqx.field(static=True)
    last: bool = eqx.field(static=True)
    skips: bool = eqx.field(static=True)

    def __call__(self, belief: LayeredBelief, rows: Rows) -> GaussianRows:
        inputs = self.inputs(belief, rows)
        if self.last:
            return GaussianRows(inputs, rows.y, rows.presence)
        own, cross = belief.layers[self.number], None
        if own.cross is not None:
            more = inputs.mean.shape[1] - own.cross.shape[1]
            cross = jnp.pad(own.cross, [(0, 0), (0, more), (0, 0)])
        return GaussianRows(inputs, own.mean, present(rows), own.variances, cross)

    def inputs(self, belief: LayeredBelief, rows: Rows) -> GaussianInputs:
        """The inputs of the layer's functions."""
        if self.number == 0:
            return GaussianInputs(rows.x, jnp.zeros_like(rows.x), ())
        mean, cov, *_ = belief.layers[self.number - 1]
        columns = tuple(range(mean.shape[1]))
        if self.skips:
            mean, more = jnp.concatenate([mean, rows.x], axis=1), (0, rows.x.shape[1])
            cov = jnp.pad(cov, [(0, 0), *[more] * (cov.ndim - 1)])
        return GaussianInputs(mean, cov, columns)


def present(rows: Rows) -> Float[Array, "N 1"]:
    """1 where a row has hidden values: where any of its outputs is observed."""
    return jnp.max(rows.site_presence, axis=1, keepdims=True)
