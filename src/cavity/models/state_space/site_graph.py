"""State-space models as graphs with sites: Power EP of states beside inducing variables.

Rows have a site each on the pair of states of their transition (or one on either state, where
states are factorised) and on the state that their outputs are of. Inducing variables have one site
for all rows, which an optimiser moves, or one of every row. States may have one site as well for
all terms that touch them; nothing is then left to sweeps, and rows can come in minibatches.

References:
    Bui (2017), S41; S42 for tied sites.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from cavity.inference.approximations.local_terms import AbstractLocalTerm
from cavity.inference.energy import Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.local import LocalFactor
from cavity.inference.factors.slots import Private, observed_rows
from cavity.inference.factors.tied import TiedSite
from cavity.inference.factors.tied_states import Copies, TiedStates
from cavity.inference.graph.base import AbstractVariable, Messages
from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import AbstractPropagation
from cavity.inference.variables.chain import Links
from cavity.inference.variables.chain_messages import Chain
from cavity.inference.variables.given import Given
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.inference.variables.inducing_view import InducingView
from cavity.models.deep.function_edges import (
    Around,
    FunctionEdges,
    private_edges,
    tied_edges,
)
from cavity.models.deep.layer import Layer
from cavity.models.state_space.site_terms import TransitionTerm
from cavity.models.state_space.site_views import (
    AbstractStateView,
    OneStateView,
    PairView,
    Start,
    earlier,
)
from cavity.models.state_space.views import shifted
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar

# Standard deviations of whitened inducing variables that a search starts from.
DEVIATION = 0.1


class EmissionSites(NamedTuple):
    """The terms of outputs whose states have sites.

    Attributes:
        views: how rows see inducing variables; none for known functions.
        states: how rows see their states where each has a site of its own.
        term: what stands in the place of the likelihood there.
        whole: what stands there where rows see their state itself.
    """

    views: tuple[InducingView, ...]
    states: AbstractStateView
    term: AbstractLocalTerm
    whole: AbstractLocalTerm


class StartingPoint(NamedTuple):
    """Initial states and messages of a search.

    Attributes:
        states: the states.
        functions: messages of the rows to the inducing variables of the transition, then of the
            emission.
    """

    states: Start
    functions: Sequence[Messages]


class Layout(NamedTuple):
    """Parts of the layout that do not depend on the form of the states' sites.

    Attributes:
        transition: the functions of transitions, with their noise.
        emission: the terms of outputs.
        rows: the outputs and the controls.
        links: how rows follow each other.
        chain: the states.
        start: where a search starts.
        power: of all rows.
        propagation: how Gaussians go through functions.
        jitter: share of the mean prior variance added to the diagonal of a covariance.
    """

    transition: Layer
    emission: EmissionSites
    rows: Rows
    links: Links
    chain: Chain
    start: StartingPoint
    power: Power
    propagation: AbstractPropagation
    jitter: float | Scalar

    def functions(self, *, tied: bool) -> "LaidOutFunctions":
        """The edges to inducing variables, of transitions and of outputs.

        Args:
            tied: whether all rows share one site on them.
        """
        views, more = self.transition.views(self.jitter), self.emission.views
        first, rest = self.start.functions[: len(views)], self.start.functions[len(views) :]
        every, count = (*views, *more), len(views)
        if not tied:
            return LaidOutFunctions(
                every, private_edges(views, first), private_edges(more, rest, count)
            )
        steps = jnp.full(self.transition.width, jnp.maximum(jnp.sum(self.links.linked), 1.0))
        observed = observed_rows(self.rows).per_output
        return LaidOutFunctions(
            every,
            tied_edges(views, steps, _around(views, first)),
            tied_edges(more, observed, _around(more, rest), count),
        )

    @property
    def steps(self) -> Rows:
        """The transitions as rows."""
        y, present = jnp.zeros((len(self.rows.y), 1), self.rows.y.dtype), self.links.linked
        return dataclasses.replace(self.rows, y=y, presence=present[:, None], side={})

    def term(self, functions: "LaidOutFunctions") -> TransitionTerm:
        """The term of a transition."""
        own = functions.views[: len(functions.transitions.edges)]
        return TransitionTerm(self.transition, own, self.propagation)


class LaidOutFunctions(NamedTuple):
    """Inducing variables of the functions of states, and the edges to them.

    Attributes:
        views: how rows see them, those of the transition first.
        transitions: the edges of transitions.
        outputs: the edges of outputs.
    """

    views: tuple[InducingView, ...]
    transitions: FunctionEdges
    outputs: FunctionEdges

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        """The variables of the edges."""
        return (*self.transitions.variables, *self.outputs.variables)


def site_graph(layout: Layout, *, hidden: str | None, tied: bool) -> Graph:
    """A model laid out with a site of every row on the states that it sees.

    Args:
        layout: the model and its rows.
        hidden: how states depend on each other: "chain" or None, or "factorised".
        tied: whether all rows share one site on inducing variables.
    """
    rows, start, size = layout.rows, layout.start.states, layout.transition.width
    functions, count = layout.functions(tied=tied), len(layout.rows.y)
    sights: tuple[AbstractStateView, ...] = (PairView(start),)
    if hidden == "factorised":
        sights = OneStateView(True, size), OneStateView(False, size, start)
    states = len(functions.variables)
    edges = (*functions.transitions.edges, *(Edge(states, sight, Private()) for sight in sights))
    transitions = LocalFactor(edges, layout.steps, count, layout.term(functions), layout.power)
    edges = (*functions.outputs.edges, Edge(states, layout.emission.states, Private()))
    outputs = LocalFactor(edges, rows, count, layout.emission.term, layout.power)
    variables, views = (*functions.variables, layout.chain), functions.views
    return Graph(variables, factors=(transitions, outputs), functions=views)


def tied_graph(layout: Layout, chunk: int) -> Graph:
    """A model laid out with one site on every state, for all terms that touch it.

    Args:
        layout: the model and its rows.
        chunk: rows worked on at a time.
    """
    rows, links, chain = layout.rows, layout.links, layout.chain
    functions, size = layout.functions(tied=True), layout.transition.width
    observed = jnp.max(rows.site_presence, axis=1)
    count = links.linked + earlier(links.linked) + observed
    copies, prior = Copies(count, links.first), (chain.initial_mean, chain.initial_variance)
    before = TiedStates(Copies(*map(shifted, copies)), *prior)
    own = TiedStates(copies, *prior)
    storing = dataclasses.replace(own, start=layout.start.states.moments())
    states, sight = len(functions.variables), OneStateView(False, size)
    pair = Edge(states, OneStateView(True, size), before), Edge(states, sight, storing)
    edges, how = (*functions.transitions.edges, *pair), layout.power
    transitions = LocalFactor(edges, layout.steps, chunk, layout.term(functions), how)
    edges = (*functions.outputs.edges, Edge(states, sight, own))
    outputs = LocalFactor(edges, rows, chunk, layout.emission.whole, how)
    variables, views = (*functions.variables, Given()), functions.views
    return Graph(variables, factors=(transitions, outputs), functions=views)


def starting_mean(view: InducingView, messages: Messages) -> Float[Array, "P M"]:
    """Means of inducing variables under messages; zero where these give none yet."""
    mean = WhitenedInducing(view.inducing.size).belief(messages).mean
    return jnp.nan_to_num(mean.reshape(-1, mean.shape[-1]))


def starting_site(view: InducingView, messages: Messages) -> TiedSite:
    """A belief about inducing variables that a search starts from, under messages."""
    mean = starting_mean(view, messages)
    logs = jnp.log(DEVIATION) + jnp.zeros_like(mean)
    return TiedSite(mean, logs[..., None] * jnp.eye(mean.shape[-1], dtype=mean.dtype))


def _around(views: Sequence[InducingView], starts: Sequence[Messages]) -> list[Around]:
    """Beliefs that a search starts from, with the means that messages make."""
    pairs = zip(views, starts, strict=True)
    return [(starting_mean(view, start), DEVIATION) for view, start in pairs]
