"""Families of posteriors of a deep Gaussian process that have values for its hidden layers."""

from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph
from cavity.inference.factors.averaged_layers import AveragedLayersFactor
from cavity.inference.factors.base import Edge
from cavity.inference.factors.coupled_layers import CoupledLayersFactor
from cavity.inference.factors.layered import (
    AbstractDependence,
    Independent,
    LayeredFactor,
    LayerSight,
    Nested,
    OnFunctions,
    OnLayerBelow,
    present,
)
from cavity.inference.factors.tied import TiedSite
from cavity.inference.factors.uncertain import Regression
from cavity.inference.graph.base import AbstractVariable
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import (
    InducingBelief,
    TiedInducing,
    WhitenedInducing,
)
from cavity.inference.variables.inducing_view import InducingView
from cavity.inference.variables.layered import LayeredMoments, LayeredValues, LayerMoments
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
        dependence: what hidden values depend on.
        slopes: stored slopes of this dependence: in the "layer" below, or in the "functions"; None
            for none.
        direct: whether beliefs about inducing variables of hidden layers are parameters of their
            own.
        stored: whether the posterior of hidden values has parameters of its own.
        stacked: whether the inducing variables of all layers have one joint belief, with
            parameters of its own.
        jointly: whether the values of a row in a layer have slopes in the inducing variables of
            all its functions, and covariances given these.
        nodes: number of quadrature nodes for the inducing variables of hidden layers; the last
            layer has an optimal belief at each node. None for a single belief of the last layer.
    """

    dependence: AbstractDependence
    slopes: str | None = None
    direct: bool = False
    stored: bool = True
    stacked: bool = False
    jointly: bool = False
    nodes: int | None = None


FAMILIES = {
    "factorised": Family(Independent()),
    "chain": Family(OnLayerBelow(), "layer"),
    "conditional": Family(OnFunctions(), "functions", direct=True),
    "conditional_local": Family(OnFunctions(), "functions"),
    "coupled": Family(OnFunctions(), "functions", direct=True, stacked=True),
    "coupled_values": Family(OnFunctions(), "functions", direct=True, stacked=True, jointly=True),
    "conditional_nodes": Family(OnFunctions(), "functions", direct=True, nodes=NODES),
    "nested": Family(Nested(), direct=True, stored=False),
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
    edges: tuple[Edge, ...] = ()
    regressions: tuple[Regression, ...] = ()
    for number, layer in enumerate(layers):
        last = number + 1 == len(layers)
        sight = LayerSight(number, last, layer.skip_connection)
        noise = noise_variance if last else ProcessNoise(cast(Array, layer.noise_variance))
        own, functions = regression(layer, sight, noise, jitter, len(edges))
        edges, regressions = edges + own, (*regressions, functions)
    inner = len(edges) - len(layers[-1].groups)
    variables: list[AbstractVariable] = []
    for i, edge in enumerate(edges):
        direct = family.direct and i < inner
        size = cast(InducingView, edge.view).inducing.size
        variables.append(TiedInducing() if direct else WhitenedInducing(size))
    start = _start(layers, edges, regressions, family, rows)
    hidden = len(edges)
    factor = LayeredFactor(edges, hidden, regressions, family.dependence, rows, power, start)
    if not (family.stacked or family.nodes):
        return Graph((*variables, LayeredValues()), (factor,))
    given = (*(TiedInducing() for _ in edges), LayeredValues())
    if family.nodes:
        return Graph(given, (AveragedLayersFactor(edges, factor, family.nodes),))
    stacked, store = _stacked_start(factor, variables), cast(LayeredMoments, start[-1])
    if family.jointly:
        store = LayeredMoments(tuple(_jointly(layer) for layer in store.layers))
    coupled = CoupledLayersFactor(edges, hidden, regressions, rows, power, (stacked, store))
    return Graph(given, (coupled,))


def _jointly(layer: LayerMoments) -> LayerMoments:
    """The values of a layer jointly, as they start; one alone depends on all that there is."""
    count, width = layer.mean.shape
    if width == 1:
        return layer
    size = sum(T.shape[0] * T.shape[2] for T in layer.slopes)
    slopes = jnp.zeros((size, count, width), layer.mean.dtype)
    lower = jnp.zeros((count, width, width), layer.mean.dtype)
    return LayerMoments(layer.mean, layer.log_deviation, (slopes,), lower)


def _stacked_start(factor: LayeredFactor, variables: list[AbstractVariable]) -> TiedSite:
    """One belief of all inducing variables, in which those of different functions are independent.

    It is that of the layers alone: of inner ones as they start, of the last one at its optimum.
    """
    sent, roots, means = factor.messages(variables, factor.start), [], []
    for i, messages in sent[:-1]:
        belief = cast(InducingBelief, variables[i].belief(messages))
        mean, cov = belief.dense()
        means.append(mean.reshape(-1))
        roots += list(jax.vmap(cholesky)(cov))
    root = jax.scipy.linalg.block_diag(*roots)
    # a covariance that cannot be factorised yet starts from zero, with more jitter to come
    logs = jnp.diag(jnp.log(jnp.diagonal(root)))
    raw = jnp.nan_to_num(jnp.tril(root, -1) + logs)
    return TiedSite(jnp.nan_to_num(jnp.concatenate(means))[None], raw[None])


def _start(
    layers: tuple[Layer, ...],
    edges: tuple[Edge, ...],
    regressions: tuple[Regression, ...],
    family: Family,
    rows: Rows,
) -> tuple[TiedSite | LayeredMoments | None, ...]:
    """Beliefs that a search starts from.

    Hidden means are the prior mean of their functions at those below; with a mean that is the same
    everywhere, linear functions of them.
    """
    beliefs: list[TiedSite | None] = [None] * len(edges)
    stored: list[LayerMoments] = []
    values = rows.x
    for number, (layer, functions) in enumerate(zip(layers[:-1], regressions[:-1], strict=True)):
        views = [cast(InducingView, edges[i].view) for i in functions.places]
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
        for i, view in zip(functions.places, views, strict=True):
            beliefs[i] = _direct_start(layer, view, first) if family.direct else None
            first += view.mean.outputs
    return (*beliefs, LayeredMoments(tuple(stored) if family.stored else ()))


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
