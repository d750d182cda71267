"""Weights as a graph has them: a variable with a flat prior, and a factor for each prior."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from cavity.inference.factors.base import AbstractFactor, Edge
from cavity.inference.factors.exact import ExactFactor
from cavity.inference.factors.site import SiteFactor
from cavity.inference.graph.rows import Rows
from cavity.inference.weights.prior_term import IntegratedPriorTerm, PriorTerm
from cavity.inference.weights.variable import Weights
from cavity.inference.weights.views import WeightView
from cavity.numerics.types import Array, Float, Int
from cavity.weights.base import AbstractWeightPrior

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
        prior: the prior, with parameters for every one of them.
        index: their positions.
        scales: parameters of it that are variables; None for none.
    """

    prior: AbstractWeightPrior
    index: Int[Array, " n"]
    scales: SeenScales | None = None

    @property
    def exact(self) -> bool:
        """Whether its sites need no search."""
        return self.prior.gaussian and self.scales is None


def priors_of(
    columns: AbstractWeightPrior,
    groups: object,
    count: int,
    intercept: AbstractWeightPrior | None,
    scales: SeenScales | None = None,
) -> list[PriorOfSome]:
    """The priors of the weights of columns, and of an intercept after them."""
    parts = [PriorOfSome(columns.for_weights(groups, count), jnp.arange(count), scales)]
    if intercept is not None:
        own = intercept.for_weights(None, 1)
        parts.append(PriorOfSome(own, jnp.arange(count, count + 1)))
    return parts


def weights_with_priors(
    number: int,
    parts: Sequence[PriorOfSome],
    outputs: int,
    *,
    loadings: Float[Array, "N p"] | None,
    mixed: bool,
    power: float,
    dtype: jnp.dtype,
) -> tuple[Weights, list[AbstractFactor]]:
    """The weights of linear functions that have the same priors, and the factors of these.

    Args:
        number: the index of the variable.
        parts: the priors of all its weights, in their order.
        outputs: the number of functions.
        loadings: the inputs of all rows of the data, where there are more weights than rows.
        mixed: whether sites of the data may have negative precisions.
        power: of the priors' sites.
        dtype: of the numbers.
    """
    # a table without columns has no weights but an intercept
    parts = [part for part in parts if part.index.shape[0]] or parts
    starts = [1.0 / part.prior.starting_variance()[:, 0] for part in parts]
    exact = all(part.exact for part in parts)
    ridge = (0.0 if exact else _RIDGE) * jnp.concatenate(starts)
    variable = Weights(ridge.astype(dtype), outputs, loadings, (mixed, not exact))
    factors = [
        _of_prior(number, part, start, outputs, power, dtype)
        for part, start in zip(parts, starts, strict=True)
    ]
    return variable, factors


def _of_prior(
    number: int,
    part: PriorOfSome,
    start: Float[Array, " n"],
    outputs: int,
    power: float,
    dtype: jnp.dtype,
) -> AbstractFactor:
    """The factor of a prior: a row for each weight, which observes nothing."""
    size = part.index.shape[0]
    zero = jnp.zeros((size, outputs), dtype)
    rows = Rows(zero[:, :1], zero, jnp.ones_like(zero[:, :1]))
    edges = (Edge(number, WeightView(part.index, start)),)
    if part.exact:
        # a weight with a Gaussian prior is one that was observed to be zero, with noise
        return ExactFactor(edges, rows, size, part.prior.starting_variance, 1.0)
    term = PriorTerm(part.prior)
    if part.scales is not None:
        edges, names, kinds = (*edges, *part.scales.edges), part.scales.names, part.scales.kinds
        term = IntegratedPriorTerm(part.prior, names, kinds)
    return SiteFactor(edges=edges, rows=rows, chunk=size, term=term, power=power)
