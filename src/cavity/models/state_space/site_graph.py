"""State-space models as graphs with sites: Power EP of states beside inducing variables.

Rows have a site each on the pair of states of their transition (or one on either state, where
states are factorised) and on the state that their outputs are of. Inducing variables have one site
for all rows, which an optimiser moves, or one of every row.

References:
    Bui (2017), S41; S42 for tied sites on inducing variables.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from cavity.inference.approximations.local_terms import AbstractLocalTerm
from cavity.inference.energy import Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.site import SiteFactor
from cavity.inference.factors.slots import Private, Tied, observed_rows
from cavity.inference.graph.base import Messages
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.views import InducingView
from cavity.inference.propagation import AbstractPropagation
from cavity.inference.variables.chain import Links
from cavity.inference.variables.chain_messages import Chain
from cavity.inference.variables.inducing import TiedInducing, WhitenedInducing
from cavity.models.deep.layer import Layer
from cavity.models.deep.term import WholeView
from cavity.models.state_space.function_sites import FunctionSitesView
from cavity.models.state_space.site_terms import TransitionTerm
from cavity.models.state_space.site_views import (
    AbstractStateView,
    OneStateView,
    PairView,
    Start,
)
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar

# Standard deviations of whitened inducing variables that a search starts from.
DEVIATION = 0.1


class EmissionSites(NamedTuple):
    """The terms of outputs whose states have sites.

    Attributes:
        views: how rows see inducing variables; none for known functions.
        states: how rows see their states.
        term: what stands in the place of the likelihood.
    """

    views: tuple[InducingView, ...]
    states: AbstractStateView
    term: AbstractLocalTerm


class StartingPoint(NamedTuple):
    """Where a search starts.

    Attributes:
        states: the states.
        functions: what rows say of the inducing variables of the transition, then of the emission.
    """

    states: Start
    functions: Sequence[Messages]


def site_graph(
    transition: Layer,
    emission: EmissionSites,
    rows: Rows,
    links: Links,
    chain: Chain,
    start: StartingPoint,
    *,
    power: Power,
    hidden: str | None,
    propagation: AbstractPropagation,
    tied: bool,
    jitter: float | Scalar,
) -> Graph:
    """A model laid out with sites on states.

    Args:
        transition: the functions of transitions, with their noise.
        emission: the terms of outputs.
        rows: the outputs and the controls.
        links: how rows follow each other.
        chain: the states.
        start: where a search starts.
        power: of all rows.
        hidden: how states depend on each other: "chain" or None, or "factorised".
        propagation: how Gaussians go through functions.
        tied: whether all rows share one site on inducing variables.
        jitter: share of the mean prior variance added to the diagonal of a covariance.
    """
    views, size = transition.views(jitter), transition.width
    variables = len(views) + len(emission.views)
    count = len(rows.y)
    steps = dataclasses.replace(
        rows, y=jnp.zeros((count, 1), rows.y.dtype), presence=links.linked[:, None], side={}
    )
    total = jnp.full(size, jnp.maximum(jnp.sum(links.linked), 1.0))
    first, more = start.functions[: len(views)], start.functions[len(views) :]
    sights: tuple[AbstractStateView, ...] = (PairView(start.states),)
    if hidden == "factorised":
        sights = OneStateView(True, size), OneStateView(False, size, start.states)
    term = TransitionTerm(transition, views, propagation)
    pairs = tuple(Edge(variables, sight, Private()) for sight in sights)
    edges = tied_edges(views, total, first, 0) if tied else _private(views, first, 0)
    edges = (*edges, *pairs)
    transitions = SiteFactor(edges, steps, count, term, power)
    edges = _private(emission.views, more, len(views))
    if tied:
        edges = tied_edges(emission.views, observed_rows(rows).per_output, more, len(views))
    edges = (*edges, Edge(variables, emission.states, Private()))
    outputs = SiteFactor(edges, rows, count, emission.term, power)
    functions = [
        TiedInducing() if tied else WhitenedInducing(view.inducing.size)
        for view in (*views, *emission.views)
    ]
    return Graph((*functions, chain), (transitions, outputs))


def tied_edges(
    views: Sequence[InducingView],
    total: Float[Array, " P"],
    starts: Sequence[Messages],
    first: int,
) -> tuple[Edge, ...]:
    """Edges to inducing variables with one site for all rows, from the index `first` on."""
    edges, column = [], 0
    for i, (view, start) in enumerate(zip(views, starts, strict=True), first):
        end = column + view.mean.outputs
        mean = WhitenedInducing(view.inducing.size).belief(start).mean
        mean = jnp.nan_to_num(mean.reshape(-1, mean.shape[-1]))
        slots = Tied(view.inducing.size, total[column:end], (mean, DEVIATION))
        edges.append(Edge(i, WholeView(), slots))
        column = end
    return tuple(edges)


def _private(
    views: Sequence[InducingView], starts: Sequence[Messages], first: int
) -> tuple[Edge, ...]:
    """Edges to inducing variables with a site of every row, from the index `first` on."""
    edges = []
    for i, (view, start) in enumerate(zip(views, starts, strict=True), first):
        sites = FunctionSitesView(view.mean.outputs, view.inducing.size, start)
        edges.append(Edge(i, sites, Private()))
    return tuple(edges)
