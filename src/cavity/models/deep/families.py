"""Families of posteriors of a deep Gaussian process that have values for its hidden layers."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from cavity.inference.bounds.base import AbstractOrderedBound
from cavity.inference.bounds.coupled_layers import CoupledLayers
from cavity.inference.bounds.layered import LayeredBound, Layers, Nested, OnFunctions
from cavity.inference.bounds.node_average import NodeAverage
from cavity.inference.energy import Graph
from cavity.inference.factors.averaged import AveragedRegression
from cavity.inference.factors.layer_sight import LayerSight, present
from cavity.inference.factors.stored import StoredLayers
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import InducingBelief, WhitenedInducing
from cavity.inference.variables.inducing_view import InducingView
from cavity.inference.variables.layered import LayeredMoments, LayerMoments
from cavity.models.deep.layer import Layer, spread_directions
from cavity.models.deep.regression import ProcessNoise, regression
from cavity.numerics.linalg import cholesky
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar

# Deviations that a search starts from: of hidden values, as a share of their functions', and of
# inducing variables.
SHARE, INDUCING_DEVIATION = 0.1, 0.1
# Nodes that stand for the inducing variables of hidden layers, where there are any.
NODES = 512
# Nodes for each of their numbers, at least: a search would fit the model to fewer.
NODES_PER_NUMBER = 16


class Family(NamedTuple):
    """A family of posteriors.

    Attributes:
        slopes: stored slopes of hidden values: in the "layer" below, or in the "functions"; None
            for none.
        bound: the bound over the order of layers; None where hidden values do not depend on
            inducing variables, so that layers are regressions between stored beliefs.
        direct: whether beliefs about inducing variables of hidden layers are parameters of their
            own.
        stored: whether the posterior of hidden values has parameters of its own.
        nodes: number of quadrature nodes for the inducing variables of hidden layers; the last
            layer has an optimal belief at each node. None for a single belief of the last layer.
    """

    slopes: str | None = None
    bound: "Callable[[Start], AbstractOrderedBound] | None" = None
    direct: bool = False
    stored: bool = True
    nodes: int | None = None


class Start(NamedTuple):
    """Layers laid out on rows, and where a search for their beliefs starts.

    Attributes:
        layers: the layers.
        inducing: beliefs about inducing variables that are given directly, None for the others.
        hidden: the hidden values.
        nodes: as of `Family`.
    """

    layers: Layers
    inducing: tuple[TiedSite | None, ...]
    hidden: LayeredMoments
    nodes: int

    @property
    def stores(self) -> tuple[TiedSite | LayeredMoments | None, ...]:
        """The stores of inducing variables, then of hidden values."""
        return (*self.inducing, self.hidden)


def _layered(start: Start) -> LayeredBound:
    """Each hidden layer has a belief about its inducing variables."""
    return LayeredBound(layers=start.layers, start=start.stores)


def _at_nodes(start: Start) -> NodeAverage:
    """The last layer has its best belief given the functions of the others."""
    return NodeAverage(layers=start.layers, start=start.stores, nodes=start.nodes)


def _coupled(start: Start) -> CoupledLayers:
    """The inducing variables of all layers have one joint belief.

    It starts as that of the layers alone, in which those of different functions are independent:
    of inner ones as they start, of the last one at its optimum.
    """
    answers, means, roots = _layered(start)(start.stores), [], []
    for belief in cast(tuple[InducingBelief, ...], answers.beliefs[:-1]):
        mean, cov = belief.dense()
        means.append(mean.reshape(-1))
        roots += list(jax.vmap(cholesky)(cov))
    root = jax.scipy.linalg.block_diag(*roots)
    # a covariance that cannot be factorised yet starts from zero, with more jitter to come
    logs = jnp.diag(jnp.log(jnp.diagonal(root)))
    raw = jnp.nan_to_num(jnp.tril(root, -1) + logs)
    stacked = TiedSite(jnp.nan_to_num(jnp.concatenate(means))[None], raw[None])
    return CoupledLayers(
        regressions=start.layers.regressions,
        rows=start.layers.rows,
        start=(stacked, start.hidden),
    )


def _coupled_values(start: Start) -> CoupledLayers:
    """The values of a row, too, have slopes in the inducing variables of all their layer."""
    bound = _coupled(start)
    hidden = LayeredMoments(tuple(_jointly(layer) for layer in start.hidden.layers))
    return dataclasses.replace(bound, start=(bound.start[0], hidden))


FAMILIES = {
    "factorised": Family(),
    "chain": Family("layer"),
    "conditional": Family("functions", _layered, direct=True),
    "conditional_local": Family("functions", _layered),
    "coupled": Family("functions", _coupled, direct=True),
    "coupled_values": Family("functions", _coupled_values, direct=True),
    "conditional_nodes": Family("functions", _at_nodes, direct=True, nodes=NODES),
    "nested": Family(bound=_layered, direct=True, stored=False),
}


def check_nodes(layers: tuple[Layer, ...], family: Family) -> None:
    """Raises ValueError where nodes are too few for the inducing variables of hidden layers."""
    numbers = sum(z.size * count for layer in layers[:-1] for _, z, count in layer.groups)
    if family.nodes is not None and numbers * NODES_PER_NUMBER > family.nodes:
        raise ValueError(
            f'hidden="conditional_nodes" averages over the {numbers} inducing variables of hidden '
            f"layers by {family.nodes} nodes, which are enough for "
            f'{family.nodes // NODES_PER_NUMBER}: give fewer inducing points, or hidden="coupled"'
        )


def layered_graph(
    layers: tuple[Layer, ...],
    noise_variance: Callable[..., Array],
    family: Family,
    rows: Rows,
    power: Power,
    jitter: float | Scalar,
) -> Graph:
    """Layers on rows, with a belief about the hidden values.

    Args:
        layers: the layers; all but the last with noise.
        noise_variance: of the outputs.
        family: the family of posteriors.
        rows: the data.
        power: the power of all rows.
        jitter: share of the mean prior variance added to the diagonal of a covariance.
    """
    regressions: list[AveragedRegression] = []
    for number, layer in enumerate(layers):
        last = number + 1 == len(layers)
        sight = LayerSight(number, last, layer.skip_connection)
        noise = noise_variance if last else ProcessNoise(cast(Array, layer.noise_variance))
        first = sum(len(each.edges) for each in regressions)
        views = layer.views(jitter)
        regressions.append(regression(layer, views, sight, noise, rows, power, first))
    functions = tuple(regressions)
    edges = [edge for each in functions for edge in each.edges]
    inducing, hidden = _start(layers, functions, family, rows)
    if family.bound is not None:
        dependence = OnFunctions() if family.stored else Nested()
        inducing = (*inducing, *[None] * len(functions[-1].edges))
        laid_out = Layers(functions, dependence, rows)
        start = Start(laid_out, inducing, hidden, family.nodes or 0)
        return Graph(bounds=(family.bound(start),), functions=tuple(e.view for e in edges))
    return Graph(
        variables=tuple(WhitenedInducing(edge.view.inducing.size) for edge in edges),
        regressions=functions,
        stored=(StoredLayers(start=hidden, chained=family.slopes is not None, rows=rows),),
        functions=tuple(edge.view for edge in edges),
    )


def _jointly(layer: LayerMoments) -> LayerMoments:
    """The values of a layer jointly, as they start; one alone depends on all that there is."""
    count, width = layer.mean.shape
    if width == 1:
        return layer
    size = sum(T.shape[0] * T.shape[2] for T in layer.slopes)
    slopes = jnp.zeros((size, count, width), layer.mean.dtype)
    lower = jnp.zeros((count, width, width), layer.mean.dtype)
    return LayerMoments(layer.mean, layer.log_deviation, (slopes,), lower)


def _start(
    layers: tuple[Layer, ...],
    regressions: tuple[AveragedRegression, ...],
    family: Family,
    rows: Rows,
) -> tuple[tuple[TiedSite | None, ...], LayeredMoments]:
    """Beliefs that a search starts from, about inducing variables of hidden layers and values.

    Hidden means are the prior mean of their functions at those below; with a mean that is the same
    everywhere, linear functions of them.
    """
    beliefs: list[TiedSite | None] = []
    stored: list[LayerMoments] = []
    values = rows.x
    for number, (layer, functions) in enumerate(zip(layers[:-1], regressions[:-1], strict=True)):
        views = [edge.view for edge in functions.edges]
        deviations = jnp.concatenate([_deviations(view) for view in views])
        below, inputs = values, values
        if layer.skip_connection:
            inputs = jnp.concatenate([values, rows.x], axis=1)
        values = functions.mean(inputs)
        if layer.mean.constant:
            values = values + deviations * spread_directions(inputs, layer.width, present(rows))
        raw = jnp.log(SHARE * deviations) * jnp.ones_like(values)
        slopes: tuple[Array, ...] = ()
        if family.slopes == "layer" and number > 0:
            slopes = (jnp.zeros((*below.shape, layer.width), values.dtype),)
        if family.slopes == "functions":
            sizes = [(view.inducing.size, len(values), view.mean.outputs) for view in views]
            slopes = tuple(jnp.zeros(size, values.dtype) for size in sizes)
        stored.append(LayerMoments(values, raw, slopes))
        first = 0
        for view in views:
            beliefs.append(_direct_start(layer, view, first) if family.direct else None)
            first += view.mean.outputs
    return tuple(beliefs), LayeredMoments(tuple(stored) if family.stored else ())


def _deviations(view: InducingView) -> Float[Array, " W"]:
    """Prior standard deviations of some functions, by the diagonal of Kuu."""
    deviation = jnp.sqrt(jnp.mean(jnp.sum(view.factor**2, axis=1)))
    return jnp.full(view.mean.outputs, deviation)


def _direct_start(layer: Layer, view: InducingView, first: int) -> TiedSite:
    mean = layer.starting_mean(view, first)
    eye = jnp.eye(view.inducing.size, dtype=mean.dtype)
    return TiedSite(
        mean, jnp.log(INDUCING_DEVIATION) * jnp.broadcast_to(eye, (len(mean), *eye.shape))
    )
