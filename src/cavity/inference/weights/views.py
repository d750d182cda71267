"""Views of weights: rows see linear functions of them, single ones, or all of them."""

import abc
import dataclasses
from collections.abc import Callable
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.graph.base import (
    AbstractProjectedVariable,
    AbstractProjectedView,
    AbstractResponse,
    AbstractSiteView,
    Change,
    Messages,
)
from cavity.inference.graph.marginals import (
    AbstractMarginal,
    Latent,
    Marginal,
    Moments,
    Natural,
    Projection,
    SharedMarginal,
    projected_marginal,
)
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, ScalarSites
from cavity.inference.variables.gaussian_sites import exact_sites, projected_gaussian_messages
from cavity.inference.weights.beliefs import DenseWeights, FactoredWeights
from cavity.inference.weights.block_sites import WeightBlockSites
from cavity.inference.weights.blocks import Blocks
from cavity.inference.weights.variable import WeightMessages, Weights
from cavity.inference.weights.whole_sites import WholeSites
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Int

SomeWeights = DenseWeights | FactoredWeights
Belief = TypeVar("Belief", bound=SomeWeights)


class Design(eqx.Module):
    """Design matrix: columns about their centre in units of their scale.

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


class AbstractLinearView(AbstractProjectedView):
    r"""Rows of the data see $\mathbf x^\top \mathbf w$, without residual.

    To implement:
        `design`, what the weights multiply; where a row of one output sees several functions,
        `presence(rows)` and `empty_sites(rows)`.
    """

    design: eqx.AbstractVar[Design]

    def project(self, rows: Rows) -> Projection:
        residual = jnp.zeros(rows.x.shape[0], rows.x.dtype)
        return Projection(self.design(rows.x).T, residual, jnp.zeros_like(self.presence(rows)))

    def marginal(
        self, belief: SomeWeights, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        known = belief.row_moments()
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


class LinearView(AbstractLinearView):
    """Rows see one linear function for each of their outputs.

    Attributes:
        design: what the weights multiply.
    """

    design: Design


class UnitsView(AbstractLinearView):
    """Rows see the inputs of several units, whose sites depend on those of all others of the row.

    Attributes:
        design: what the weights multiply.
        count: the number of units.
        start: the sites that a search starts from.
    """

    scalar: ClassVar[bool] = False
    layered: ClassVar[bool] = True
    design: Design
    count: int = eqx.field(static=True)
    start: ScalarSites

    def empty_sites(self, rows: Rows) -> AbstractSites:
        return self.start

    def presence(self, rows: Rows) -> Array:
        return jnp.broadcast_to(rows.site_presence, (rows.y.shape[0], self.count))


class AbstractSeveralWeights(AbstractSiteView[Belief, Weights]):
    """Rows see several weights, with a site over all that they see.

    To implement:
        `empty_sites(rows)`, `seen(belief, rows)`, `at(moments, rows)` and
        `messages(variable, rows, sites)`.
    """

    scalar: ClassVar[bool] = False

    @abc.abstractmethod
    def seen(self, belief: Belief, rows: Rows) -> Moments:
        """Moments of the weights that each row sees, in the form that its sites take."""

    def presence(self, rows: Rows) -> Array:
        return rows.site_presence

    def marginal(
        self, belief: Belief, rows: Rows, sites: AbstractSites | None = None
    ) -> AbstractMarginal:
        return self.at(self.seen(belief, rows), rows)

    def without_site(
        self, belief: Belief, rows: Rows, sites: AbstractSites
    ) -> tuple[Latent | Natural, Array]:
        marginal = self.marginal(belief, rows)
        mean, cov, proper = sites.cavity(*marginal.moments, 1.0)
        return marginal.latent(mean, cov), proper


class WholeView(AbstractSeveralWeights[SomeWeights]):
    """Rows of the data see all weights of each function, with a site over all of one.

    Attributes:
        size: the number of weights of a function.
        functions: the number of functions.
        start: the sites that a search starts from.
    """

    layered: ClassVar[bool] = True
    size: int = eqx.field(static=True)
    functions: int = eqx.field(static=True)
    start: WholeSites

    def presence(self, rows: Rows) -> Array:
        return jnp.broadcast_to(rows.site_presence, (rows.y.shape[0], self.functions))

    def empty_sites(self, rows: Rows) -> AbstractSites:
        return self.start

    def seen(self, belief: SomeWeights, rows: Rows) -> Moments:
        mean, cov = belief.dense()
        shape = (rows.y.shape[0], *mean.shape)
        return jnp.broadcast_to(mean, shape), jnp.broadcast_to(cov, (*shape, self.size))

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        mean, cov = moments
        return Marginal(mean, cov, jnp.zeros_like(mean), jnp.zeros_like(cov))

    def messages(self, variable: Weights, rows: Rows, sites: WholeSites) -> WeightMessages:
        whole = jax.tree.map(lambda x: jnp.sum(x, axis=0, keepdims=True), sites).matrices()
        return variable.messages_of_whole(whole.shift, whole.precision)


class BlockView(AbstractSeveralWeights[DenseWeights]):
    """Rows of a prior see blocks of weights.

    Attributes:
        blocks: which weights each row sees.
        start: precisions of the sites that a search starts from.
    """

    blocks: Blocks
    start: Float[Array, " B"]

    def empty_sites(self, rows: Rows) -> AbstractSites:
        return self.blocks.sites(self.start, rows.y.shape[1])

    def seen(self, belief: DenseWeights, rows: Rows) -> Moments:
        assert belief.block_cavities is not None
        return belief.block_cavities

    def at(self, moments: Moments, rows: Rows) -> SharedMarginal:
        return SharedMarginal(Natural(*moments))

    def messages(self, variable: Weights, rows: Rows, sites: WeightBlockSites) -> WeightMessages:
        return variable.messages_of_blocks(sites)


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
        self, belief: SomeWeights, rows: Rows, sites: AbstractSites | None = None
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


class ParameterView(AbstractProjectedView):
    """Rows of a prior see a parameter of it, which is shared by a group of them.

    Attributes:
        index: the group of each row.
        location: mean of the parameter's Gaussian prior.
        deviation: its standard deviation.
        groups: the number of groups, whose parameters are independent.
    """

    index: Int[Array, " n"]
    location: Float[Array, ""]
    deviation: Float[Array, ""]
    groups: int = eqx.field(static=True)

    def projection(self, outputs: int = 1) -> Projection:
        """Linear map from whitened parameters to rows."""
        dtype = jnp.result_type(self.deviation)
        loadings = self.deviation * (jnp.arange(self.groups)[:, None] == self.index).astype(dtype)
        size = self.index.shape[0]
        offset = jnp.full((size, outputs), self.location, dtype)
        return Projection(loadings, jnp.zeros(size, dtype), offset)

    def project(self, rows: Rows) -> Projection:
        return self.projection(rows.y.shape[1])

    def group_view(self) -> "ParameterView":
        """The view with one row for each group."""
        return dataclasses.replace(self, index=jnp.arange(self.groups))

    def gaussian_messages(
        self,
        variable: AbstractProjectedVariable,
        rows: Rows,
        noise_variance: Callable[..., Array],
        power: Power,
        chunk: int,
        volume: float | None = None,
    ) -> Messages:
        return projected_gaussian_messages(self, variable, rows, noise_variance, power, chunk)
