"""Edges to the inducing variables of functions: one site for all rows, or one of each row."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from cavity.inference.factors.base import Edge
from cavity.inference.factors.slots import Private, Tied
from cavity.inference.graph.base import AbstractVariable, Messages
from cavity.inference.variables.function_sites import FunctionSitesView
from cavity.inference.variables.given import Given
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.inference.variables.inducing_view import InducingView
from cavity.models.deep.layer import Layer
from cavity.models.deep.term import WholeView
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float

# Copies of the sites that a search holds: its iterates, images and the differences of these that
# extrapolation remembers; and the bytes that they may take.
COPIES, MOST_BYTES = 24, 1 << 31
# Means of inducing variables that a search starts from, and their standard deviation.
Around = tuple[Float[Array, "_ _"], float]


class FunctionEdges(NamedTuple):
    """Edges to inducing variables.

    Attributes:
        edges: one for the inducing variables of each view.
        variables: those variables.
    """

    edges: tuple[Edge, ...]
    variables: tuple[AbstractVariable, ...]


def tied_edges(
    views: Sequence[InducingView],
    total: Float[Array, " P"],
    starts: Sequence[Around | None],
    first: int = 0,
) -> FunctionEdges:
    """Edges with one site for all rows, from the index `first` on.

    Args:
        views: how rows see the inducing variables of functions.
        total: the number of observed rows in all the data, per function.
        starts: beliefs that a search starts from, per view; None for the prior.
        first: the index of the first variable.
    """
    edges, column = [], 0
    for i, (view, start) in enumerate(zip(views, starts, strict=True), first):
        end = column + view.mean.outputs
        edges.append(Edge(i, WholeView(), Tied(view.inducing.size, total[column:end], start)))
        column = end
    return FunctionEdges(tuple(edges), (Given(),) * len(edges))


def private_edges(
    views: Sequence[InducingView], starts: Sequence[Messages | None], first: int = 0
) -> FunctionEdges:
    """Edges with a site of every row, from the index `first` on.

    Args:
        views: how rows see the inducing variables of functions.
        starts: messages of all sites that a search starts from, per view; None for none.
        first: the index of the first variable.
    """
    edges = []
    for i, (view, start) in enumerate(zip(views, starts, strict=True), first):
        sites = FunctionSitesView(view.mean.outputs, view.inducing.size, start)
        edges.append(Edge(i, sites, Private()))
    variables = tuple(WhitenedInducing(view.inducing.size) for view in views)
    return FunctionEdges(tuple(edges), variables)


def messages_around(start: Around) -> Messages:
    """Messages that make of the prior independent values with these means and deviation."""
    mean, deviation = start
    precision = 1.0 / deviation**2
    own = (precision - 1.0) * jnp.eye(mean.shape[1], dtype=mean.dtype)
    every = jnp.broadcast_to(own, (mean.shape[0], *own.shape))
    return Messages(precision * mean[:, None], every, jnp.zeros((), mean.dtype))


def check_memory(layers: Sequence[Layer], count: int, remedy: str) -> None:
    """Raises ValueError where sites of so many rows on inducing variables take too much.

    Args:
        layers: the functions.
        count: the number of rows.
        remedy: the method by which all rows share one site.
    """
    groups = [group for layer in layers for group in layer.groups]
    sizes = [width * inducing.size * (inducing.size + 1) for _, inducing, width in groups]
    total = COPIES * 8 * count * sum(sizes)
    if total > MOST_BYTES:
        raise ValueError(
            f"the sites of {plural(count, 'row')} on inducing variables would take {total} bytes "
            f"({total / 2**30:.1f} GiB) in a search, above {MOST_BYTES / 2**30:.0f} GiB: give "
            f"{remedy}, by which all rows share one site, or fewer inducing points"
        )
