"""A layer of functions as a regression between Gaussian variables."""

from collections.abc import Callable, Sequence

import equinox as eqx

from cavity.inference.factors.averaged import AbstractSight, AveragedRegression
from cavity.inference.factors.base import Edge
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.models.deep.layer import Layer
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float


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
    views: Sequence[InducingView],
    sight: AbstractSight,
    noise_variance: Callable[..., Array],
    rows: Rows,
    power: Power,
    first: int = 0,
) -> AveragedRegression:
    """The functions of a layer, whose inducing variables are those from the index `first` on."""
    edges = tuple(Edge(i, view) for i, view in enumerate(views, first))
    mean = OutputMean(layer.mean, layer.width)
    return AveragedRegression(edges, mean, sight, noise_variance, rows, power)
