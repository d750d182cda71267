"""Views of weights: rows of the data see linear functions of them, rows of a prior single ones."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.factors.gaussian_sites import exact_sites, projected_gaussian_messages
from cavity.inference.graph.base import (
    AbstractProjectedView,
    AbstractResponse,
    Change,
    Marginal,
    Messages,
    Moments,
    Projection,
    projected_marginal,
)
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, ScalarSites
from cavity.inference.weights.beliefs import DenseWeights, FactoredWeights
from cavity.inference.weights.variable import WeightMessages, Weights
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Int


class Design(eqx.Module):
    """What the weights multiply: columns about their centre in units of their scale.

    Attributes:
        centre: subtracted from the columns; None for zero.
        scale: what they are divided by then; None for one.
        intercept: whether a column of ones follows.
    """

    centre: Float[Array, " D"] | None
    scale: Float[Array, " D"] | None
    intercept: bool = eqx.field(static=True)

    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N p"]:
        X = X if self.centre is None else X - self.centre
        X = X if self.scale is None else X / self.scale
        if not self.intercept:
            return X
        return jnp.concatenate([X, jnp.ones((X.shape[0], 1), X.dtype)], axis=1)


class LinearView(AbstractProjectedView):
    r"""Rows of the data see $\mathbf x^\top \mathbf w$, without residual.

    Attributes:
        design: what the weights multiply.
    """

    design: Design

    def project(self, rows: Rows) -> Projection:
        residual = jnp.zeros(rows.x.shape[0], rows.x.dtype)
        return Projection(self.design(rows.x).T, residual, jnp.zeros_like(rows.y))

    def marginal(
        self,
        belief: DenseWeights | FactoredWeights,
        rows: Rows,
        sites: AbstractSites | None = None,
    ) -> Marginal:
        known = belief.of_rows()
        projection = self.project(rows)
        moments = belief.marginal(projection) if known is None else known
        return projected_marginal(*moments, projection)

    def gaussian_messages(
        self,
        variable: Weights,
        rows: Rows,
        noise_variance: Callable[..., Array],
        power: Power,
        chunk: int,
        volume: float | None = None,
    ) -> Messages:
        # there is no residual, so that its volume is nothing
        return projected_gaussian_messages(self, variable, rows, noise_variance, power, chunk)


class WeightView(AbstractProjectedView):
    """Rows of a prior see single weights.

    Attributes:
        index: which weight each row sees.
        start: precisions of the sites that a search starts from.
    """

    index: Int[Array, " n"]
    start: Float[Array, " n"]

    def empty_sites(self, rows: Rows) -> ScalarSites:
        """Sites matched to the prior: with none the belief would not be proper."""
        zero = jnp.zeros_like(rows.y)
        return ScalarSites(zero, zero + self.start[:, None])

    def project(self, rows: Rows) -> Projection:
        return Projection(None, jnp.zeros(rows.y.shape[0], rows.y.dtype), jnp.zeros_like(rows.y))

    def marginal(
        self,
        belief: DenseWeights | FactoredWeights,
        rows: Rows,
        sites: AbstractSites | None = None,
    ) -> Marginal:
        projection = self.project(rows)
        mean, var = belief.marginal(projection)
        return projected_marginal(mean[self.index], var[self.index], projection)

    def messages(self, variable: Weights, rows: Rows, sites: AbstractSites) -> WeightMessages:
        zero = jnp.zeros(rows.y.shape[0], rows.y.dtype)
        return variable.messages_of_weights(sites.shift, sites.precision, zero, self.index)

    def moment_change(self, response: AbstractResponse, change: Change, rows: Rows) -> Moments:
        mean, var = response.marginal(change, self.project(rows))
        return mean[self.index], var[self.index]

    def gaussian_messages(
        self,
        variable: Weights,
        rows: Rows,
        noise_variance: Callable[..., Array],
        power: Power,
        chunk: int,
        volume: float | None = None,
    ) -> WeightMessages:
        sites = exact_sites(rows, self.project(rows), noise_variance, power)
        return variable.messages_of_weights(*sites, self.index)
