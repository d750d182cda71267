"""Networks as graphs: a variable for the weights of each layer, and the rows that see them."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.exact import ExactRegression
from cavity.inference.factors.local import LocalFactor
from cavity.inference.factors.slots import Tied, observed_rows
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.networks.term import NetworkTerm
from cavity.inference.networks.tied_views import (
    AbstractTiedWeightsView,
    TiedUnitsView,
    TiedWholeView,
)
from cavity.inference.variables.given import Given
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.weights.beliefs import DenseWeights
from cavity.inference.weights.priors import (
    PriorOfSome,
    starting_variances,
    weights_with_priors,
)
from cavity.inference.weights.views import Design, UnitsView, WholeView
from cavity.models.base import GraphSettings
from cavity.models.latent_gp import shared_parameters
from cavity.numerics.types import Array, Float

# Rows at the most by which deviations are found that a search for tied sites starts from.
ROWS_OF_START = 1000


class LayerWeights(NamedTuple):
    """The weights of one layer, or of a linear part.

    Attributes:
        priors: of all of them.
        start: weights that a search starts from, (p, P) of P functions.
        design: what they multiply; None where rows see the weights themselves.
    """

    priors: list[PriorOfSome]
    start: Float[Array, "p P"]
    design: Design | None = None


def sited_graph(
    layers: list[LayerWeights],
    term: NetworkTerm,
    rows: Rows,
    settings: GraphSettings,
    prior_power: float,
) -> Graph:
    """Weights with flat priors, factors of their own priors, and rows with sites of their own.

    Args:
        layers: the weights of the units layer by layer, of the output unless they are known, and
            of a linear part.
        term: of the rows.
        rows: the data.
        settings: how the model is laid out on them.
        prior_power: of the priors' sites.
    """
    count, chunk = rows.x.shape[0], settings.chunk
    variables: list[Any] = []
    exact: list[ExactRegression] = []
    local: list[LocalFactor] = []
    for number, (priors, start, design) in enumerate(layers):
        loadings = None
        if design is not None and start.shape[0] > count:
            loadings, chunk = design(rows.x), count
        own = weights_with_priors(
            number,
            priors,
            start,
            loadings=loadings,
            mixed=True,
            power=prior_power,
        )
        variables.append(own.variable)
        exact.extend(own.exact)
        local.extend(own.local)
    views = _views_with_sites(layers, term, rows)
    for parameter in shared_parameters(term.likelihood):
        variable, view = parameter.sparse_layout(1, settings.jitter)
        variables.append(variable)
        views.append(view)
    edges = tuple(Edge(i, view) for i, view in enumerate(views))
    data = LocalFactor(edges, rows, chunk, term, settings.power, scale=settings.scale)
    return Graph(tuple(variables), priors=tuple(exact), factors=(data, *local))


def _views_with_sites(layers: list[LayerWeights], term: NetworkTerm, rows: Rows) -> list[Any]:
    """Views of the layers' weights, with the sites that a search starts from."""
    views: list[Any] = []
    for (_, start, design), own in zip(layers, _sites_at(layers, term, rows), strict=True):
        size, functions = start.shape
        if design is None:
            views.append(WholeView(size, functions, own))
        else:
            views.append(UnitsView(design, functions, own))
    return views


def _sites_at(layers: list[LayerWeights], term: NetworkTerm, rows: Rows) -> tuple[Any, ...]:
    """Sites of the rows about the weights that a search starts from."""
    designs = [layer for layer in layers if layer.design is not None]
    above = [layer.start for layer in layers if layer.design is None]
    if term.output is not None:
        above.append(term.output[:, None])
    hidden, *linear = (layer.design(rows.x) @ layer.start for layer in designs if layer.design)
    return term.sites_at(hidden, tuple(above), linear[0] if linear else None, rows)


def tied_graph(
    layers: list[LayerWeights],
    term: NetworkTerm,
    rows: Rows,
    settings: GraphSettings,
) -> Graph:
    """Whitened weights with one site for all rows, and the parameters that rows share.

    A search starts about known weights, with the deviations that each weight has there when all
    others are given.

    Args:
        layers: as of `sited_graph`, with Gaussian priors.
        term: of the rows.
        rows: the data.
        settings: how the model is laid out on them.
    """
    total = settings.observed(rows)
    some = rows.take(jnp.asarray(_spread_out(rows.y.shape[0], ROWS_OF_START)))
    share = total.any_output / observed_rows(some).any_output
    pairs: list[tuple[Any, Tied]] = []
    for layer, sites in zip(layers, _sites_at(layers, term, some), strict=True):
        size, functions = layer.start.shape
        own = jnp.sqrt(starting_variances(layer.priors)).astype(layer.start.dtype)
        mean = (layer.start / own[:, None]).T
        if layer.design is None:
            view, seen = TiedWholeView(own), sites.diagonal().sum(axis=0)
        else:
            view = TiedUnitsView(own, layer.design)
            seen = sites.precision.T @ layer.design(some.x) ** 2
        narrow = (1.0 + share * own**2 * seen) ** -0.5
        pairs.append((view, Tied(size, jnp.full(functions, total.any_output), (mean, narrow))))
    for parameter in shared_parameters(term.likelihood):
        view = parameter.sparse_layout(1, settings.jitter)[1]
        pairs.append((view, Tied(parameter.size, total.per_output)))
    edges = tuple(Edge(i, *pair) for i, pair in enumerate(pairs))
    factor = LocalFactor(edges, rows, settings.chunk, term, settings.power, scale=settings.scale)
    return Graph(tuple(Given() for _ in edges), factors=(factor,))


def _spread_out(count: int, most: int) -> np.ndarray:
    """Numbers of at most so many rows, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def unwhitened(belief: InducingBelief, view: AbstractTiedWeightsView) -> DenseWeights:
    """The belief about weights themselves."""
    mean = belief.mean.reshape(-1, belief.mean.shape[-1]) * view.deviation
    none = jnp.zeros_like(mean).T
    return DenseWeights(
        mean, belief.root * view.deviation, belief.log_normaliser, ScalarSites(none, none)
    )
