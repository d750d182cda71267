"""A layer of functions as a regression between Gaussian variables, and as a process again."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx

from cavity.inference.factors.base import Edge
from cavity.inference.factors.uncertain import AbstractSight, Regression
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.models.deep.layer import Layer, LayerProcess
from cavity.numerics.types import Array, Float, Scalar


class ProcessNoise(eqx.Module):
    """A noise variance that is the same for all rows.

    Attributes:
        variance: one number, or one per function.
    """

    variance: Float[Array, "..."]

    def __call__(self, **side: Array) -> Array:
        return self.variance


def regression(
    layer: Layer,
    sight: AbstractSight,
    noise_variance: Callable[..., Array],
    jitter: float | Scalar,
    first: int,
) -> tuple[tuple[Edge, ...], Regression]:
    """The functions of a layer, on edges and variables from the index `first` on."""
    edges = tuple(Edge(i, view) for i, view in enumerate(layer.views(jitter), first))
    places = tuple(edge.variable for edge in edges)
    mean = OutputMean(layer.mean, layer.width)
    return edges, Regression(places, mean, sight, noise_variance)


def process_of(
    layer: Layer, functions: Regression, edges: Sequence[Edge], beliefs: Sequence[Any]
) -> LayerProcess:
    """The functions of a layer under beliefs about the variables of a graph."""
    own_edges = [edges[i] for i in functions.places]
    views = [cast(InducingView, edge.view) for edge in own_edges]
    own = [cast(InducingBelief, beliefs[edge.variable]) for edge in own_edges]
    return layer.process(views, own)
