"""Weights as a graph has them: a variable with a flat prior, and a factor for each prior."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.factors.base import Edge
from cavity.inference.factors.exact import ExactRegression
from cavity.inference.factors.local import LocalFactor
from cavity.inference.graph.rows import Rows
from cavity.inference.weights.blocks import Blocks, units_of
from cavity.inference.weights.prior_term import BlockPriorTerm, IntegratedPriorTerm, PriorTerm
from cavity.inference.weights.variable import Weights
from cavity.inference.weights.views import BlockView, WeightView
from cavity.numerics.types import Array, Float, Int
from cavity.weights.base import AbstractScaleMixture, AbstractWeightPrior

# The precision of the Gaussian that counts as a flat prior, over that of the weight's own prior.
_RIDGE = 1e-8


class SeenScales(NamedTuple):
    """Parameters of a prior that are variables.

    Attributes:
        edges: to each of them.
        names: their dotted names.
        kinds: the scale of each, as in `cavity.parameters.gaussian_scale`.
    """

    edges: tuple[Edge, ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...]


class PriorOfSome(NamedTuple):
    """The prior of some of the weights of a variable.

    Attributes:
        prior: the prior, with parameters for every one of them, or for every block.
        index: their positions; of blocks those of each block.
        scales: parameters of it that are variables; None for none.
        blocks: the blocks whose weights share a scale; None for single weights.
    """

    prior: AbstractWeightPrior
    index: Int[Array, " n *width"]
    scales: SeenScales | None = None
    blocks: Blocks | None = None

    @property
    def count(self) -> int:
        """The number of weights."""
        return self.index.shape[0] if self.blocks is None else self.blocks.count

    @property
    def starting_precision(self) -> Float[Array, " n"]:
        """Precisions of the sites that a search starts from, of every weight or block."""
        return 1.0 / self.prior.starting_variance()[:, 0]

    @property
    def exact(self) -> bool:
        """True if its sites need no search."""
        return self.prior.gaussian and self.scales is None


def priors_of(
    columns: AbstractWeightPrior,
    groups: object,
    count: int,
    intercept: AbstractWeightPrior | None,
    scales: SeenScales | None = None,
    blocks: Sequence[Sequence[int]] = (),
) -> list[PriorOfSome]:
    """The priors of the weights of columns, and of an intercept after them.

    Args:
        columns: the prior of columns.
        groups: the group of each column; None for none.
        count: the number of columns.
        intercept: the prior of the intercept; None for none.
        scales: parameters of the prior of columns that are variables.
        blocks: columns whose weights share a scale.
    """
    if blocks:
        parts = _with_blocks(columns, blocks, count)
    else:
        parts = [PriorOfSome(columns.for_weights(groups, count), jnp.arange(count), scales)]
    if intercept is not None:
        own = intercept.for_weights(None, 1)
        parts.append(PriorOfSome(own, jnp.arange(count, count + 1)))
    return parts


def starting_variances(parts: Sequence[PriorOfSome]) -> Float[Array, " p"]:
    """Variances of Gaussians in the place of the priors, of all weights of a variable.

    Args:
        parts: the priors of all its weights, none of which are in blocks.
    """
    found = [part.prior.starting_variance()[:, 0] for part in parts]
    order = jnp.argsort(jnp.concatenate([part.index for part in parts]))
    return jnp.concatenate(found)[order]


def _with_blocks(
    columns: AbstractWeightPrior, blocks: Sequence[Sequence[int]], count: int
) -> list[PriorOfSome]:
    """The priors of blocks, and of the other columns after them."""
    units = units_of(blocks, count)
    each = columns.for_weights(units, count)
    if columns.gaussian:
        # weights with the same variance are independent, in a block or not
        return [PriorOfSome(each, jnp.arange(count))]

    def chosen_prior(chosen: np.ndarray) -> AbstractWeightPrior:
        return jax.tree.map(lambda x: x[chosen], each)

    seen = Blocks.from_columns(blocks, jnp.result_type(*jax.tree.leaves(each)))
    first, others = np.array([block[0] for block in blocks]), np.flatnonzero(units >= len(blocks))
    parts = [PriorOfSome(chosen_prior(first), seen.index, blocks=seen)]
    return [*parts, PriorOfSome(chosen_prior(others), jnp.asarray(others))]


class WeightsWithPriors(NamedTuple):
    """The weights of linear functions that have the same priors.

    Attributes:
        variable: the weights.
        exact: Gaussian priors.
        local: all other priors.
    """

    variable: Weights
    exact: tuple[ExactRegression, ...]
    local: tuple[LocalFactor, ...]


def weights_with_priors(
    number: int,
    parts: Sequence[PriorOfSome],
    like: Float[Array, "n P"],
    *,
    loadings: Float[Array, "N p"] | None,
    mixed: bool,
    power: float,
) -> WeightsWithPriors:
    """The weights of linear functions that have the same priors, and these.

    Args:
        number: the index of the variable.
        parts: the priors of all its weights.
        like: numbers of the same precision, the last axis with one for each function.
        loadings: the inputs of all rows of the data, where there are more weights than rows.
        mixed: whether sites of the data may have negative precisions.
        power: of the priors' sites.
    """
    outputs, dtype = like.shape[-1], like.dtype
    # a table without columns has no weights but an intercept
    parts = [part for part in parts if part.index.shape[0]] or parts
    exact = all(part.exact for part in parts)
    ridge = jnp.zeros(sum(part.count for part in parts), dtype)
    for part in parts:
        own = (0.0 if exact else _RIDGE) * part.starting_precision
        own = own.reshape(-1, *[1] * (part.index.ndim - 1))
        ridge = ridge.at[part.index].set(jnp.broadcast_to(own, part.index.shape))
    blocks = next((part.blocks for part in parts if part.blocks is not None), None)
    variable = Weights(ridge, outputs, loadings, (mixed, not exact), blocks)
    rows = [_rows_of_prior(part, outputs, dtype) for part in parts]
    pairs = list(zip(parts, rows, strict=True))
    return WeightsWithPriors(
        variable,
        tuple(_exact_prior(number, part, own) for part, own in pairs if part.exact),
        tuple(_local_prior(number, part, own, power) for part, own in pairs if not part.exact),
    )


def _rows_of_prior(part: PriorOfSome, outputs: int, dtype: jnp.dtype) -> Rows:
    """A row for each weight or block, which observes nothing."""
    zero = jnp.zeros((part.index.shape[0], outputs), dtype)
    return Rows(zero[:, :1], zero, jnp.ones_like(zero[:, :1]))


def _exact_prior(number: int, part: PriorOfSome, rows: Rows) -> ExactRegression:
    """A weight with a Gaussian prior is one that was observed to be zero, with noise."""
    edges = (Edge(number, WeightView(part.index, part.starting_precision)),)
    return ExactRegression(edges, rows, len(rows.y), part.prior.starting_variance, 1.0)


def _local_prior(number: int, part: PriorOfSome, rows: Rows, power: float) -> LocalFactor:
    """The factor of a prior."""
    size, start = len(rows.y), part.starting_precision
    if part.blocks is not None:
        edges: tuple[Edge, ...] = (Edge(number, BlockView(part.blocks, start)),)
        term = BlockPriorTerm(cast(AbstractScaleMixture, part.prior), part.blocks.present)
        return LocalFactor(edges=edges, rows=rows, chunk=size, term=term, power=power)
    edges, term = (Edge(number, WeightView(part.index, start)),), PriorTerm(part.prior)
    if part.scales is not None:
        edges, names, kinds = (*edges, *part.scales.edges), part.scales.names, part.scales.kinds
        term = IntegratedPriorTerm(part.prior, names, kinds)
    return LocalFactor(edges=edges, rows=rows, chunk=size, term=term, power=power)
