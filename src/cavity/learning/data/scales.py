"""Scales of the data, and starting values and step sizes of parameters that follow from them.

Parameters declare the units they are measured in; with the scales of the columns this gives
starting values in the units of the data, and step sizes for an optimiser. Positive parameters
are optimised on the logarithmic scale, where units are an additive constant, so learning does not
depend on the units of the data although the data are not transformed.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import inducing_points, input_columns
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing_view import OutputMean
from cavity.kernels.base import Active
from cavity.kernels.parts import AbstractParts
from cavity.kernels.stationary import AbstractStationary
from cavity.kernels.sum_over import SumOver, plain_columns
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import HasInitialLatents, capability
from cavity.likelihoods.latent_values import initial_latents, log_odds
from cavity.likelihoods.support import Support
from cavity.models.deep.layer import Layer, layers_of
from cavity.numerics.jit import compiled
from cavity.parameters import Positive, Real, Units, free_parts, from_real, to_real, units
from cavity.parameters.trees import is_entry

# Logarithms of parameters stay this close to where they start: a factor of 6e7 either way.
REACH = 18.0
LEAST_VARIANCE = 1e-11
# Columns whose deviation is a smaller share of their magnitude are constant.
CONSTANT = 1e-12
# Locations move by so many spreads where logarithms move by one (benchmarks/results/steps.csv).
LOCATION = 2.0

# An array of numpy, or of JAX where data are traced with what was counted of them.
Column = Any

# One program each: their many small steps would be compiled one by one.
coordinates_of = compiled(to_real)
model_at = compiled(from_real)


@dataclasses.dataclass(frozen=True)
class Scales:
    """Location and spread of the columns of a data set.

    Attributes:
        x_centre: mean of each input column.
        x_spread: standard deviation of each input column; 1 for constant ones.
        y_centre: mean of each output.
        y_spread: standard deviation of the outputs that vary about their means; where none does
            their magnitude, or 1.
        distances: whether the unit of the inputs is a typical distance between rows, the spread
            of a column times the square root of the number of columns.
        y_varies: whether any output does.
    """

    x_centre: np.ndarray
    x_spread: np.ndarray
    y_centre: np.ndarray
    y_spread: float
    distances: bool = False
    y_varies: bool = True

    @property
    def x_unit(self) -> np.ndarray:
        """The unit of each input column."""
        return self.x_spread * (np.sqrt(len(self.x_spread)) if self.distances else 1.0)

    def columns(self, dims: tuple[int, ...]) -> "Scales":
        """The scales of some input columns only."""
        kept = list(dims)
        spread = self.x_spread[kept]
        return dataclasses.replace(self, x_centre=self.x_centre[kept], x_spread=spread)

    def grouped(self, groups: tuple[int, ...]) -> "Scales":
        """The scales of groups of columns, the numbers of which are given for each column.

        The spread of a group is that of its rows about their mean: of the 0/1 columns of a
        category the chance that two rows differ, by its root.
        """
        numbers = np.array(groups)
        first = [groups.index(group) for group in range(max(groups) + 1)]
        alone = np.bincount(numbers) == 1
        together = np.sqrt(np.bincount(numbers, self.x_spread**2))
        spread = np.where(alone, self.x_spread[first], together)
        return dataclasses.replace(self, x_centre=self.x_centre[first], x_spread=spread)

    def parts(self, parts: AbstractParts) -> "Scales":
        """The scales of all parts of the inputs; positions in them spread over their places."""
        rows = np.stack([self.x_centre, self.x_spread, np.zeros_like(self.x_spread)])
        centres, spreads, nothing = np.asarray(parts.of(rows), np.float64)
        within = np.mean((spreads - nothing) ** 2, axis=0)
        spread = np.sqrt(within + np.var(centres, axis=0))
        spread = np.where(spread > 0.0, spread, 1.0)
        return dataclasses.replace(self, x_centre=np.mean(centres, axis=0), x_spread=spread)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tally:
    """Counts and moments of columns; those of two parts of a table add to those of both.

    Attributes:
        count: entries of each column.
        mean: their means.
        squares: sums of their squared deviations from the means.
        largest: the largest magnitude of each column.
    """

    count: Column
    mean: Column
    squares: Column
    largest: Column

    @property
    def var(self) -> np.ndarray:
        """The variance of each column; 0 where there is no entry."""
        return self.squares / np.maximum(self.count, 1.0)

    @property
    def varies(self) -> np.ndarray:
        """True where a column varies beyond rounding."""
        return np.sqrt(self.var) > CONSTANT * self.largest

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation of each column; 1 for constant ones."""
        return np.where(self.varies, np.sqrt(self.var), 1.0)

    def fading(self, share: float) -> "Tally":
        """The tally where each entry counts as a share of one."""
        return Tally(share * self.count, self.mean, share * self.squares, self.largest)

    def __add__(self, other: "Tally") -> "Tally":
        count = self.count + other.count
        share = other.count / np.where(count > 0.0, count, 1.0)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * self.count * share
        largest = np.maximum(self.largest, other.largest)
        return Tally(count, self.mean + apart * share, squares, largest)


# Those of the inputs, and of the latent function as the outputs tell it.
Tallies = tuple[Tally, Tally]


def tally(values: np.ndarray, presence: np.ndarray | None = None) -> Tally:
    """The tally of columns (N, K).

    Args:
        values: the columns.
        presence: weights that broadcast against them, 0 for entries that do not count.
    """
    if presence is None:
        count = np.full(values.shape[1], float(len(values)))
        mean = values.mean(axis=0)
        squares = ((values - mean) ** 2).sum(axis=0)
        return Tally(count, mean, squares, np.abs(values).max(axis=0, initial=0.0))
    weight = np.broadcast_to(presence, values.shape)
    count = weight.sum(axis=0)
    mean = (weight * values).sum(axis=0) / np.where(count > 0.0, count, 1.0)
    squares = (weight * (values - mean) ** 2).sum(axis=0)
    largest = np.where(weight > 0.0, np.abs(values), 0.0).max(axis=0, initial=0.0)
    return Tally(count, mean, squares, largest)


def measure(
    X: np.ndarray,
    y: np.ndarray,
    presence: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> Scales:
    """The scales of a data set.

    Args:
        X: inputs (N, D).
        y: outputs (N, P).
        presence: weights that broadcast against y, 0 for entries that do not count.
        weights: of rows of inputs, (N,); None where all count once.
    """
    own = None if weights is None else weights[:, None]
    return scales_of(tally(X, own), tally(y, presence))


def scales_of(x: Tally, y: Tally) -> Scales:
    """The scales of inputs and outputs that were counted."""
    varies = bool(np.any(y.varies))
    if varies:
        deviation = np.sqrt(y.squares[y.varies].sum() / y.count[y.varies].sum())
    else:
        deviation = y.largest.max(initial=0.0) or 1.0
    return Scales(x.mean, x.spread, y.mean, float(deviation), y_varies=varies)


def in_data_units(module: Any, scales: Scales) -> Any:
    """A module given in standardised units, moved to the units of the data.

    Each parameter is multiplied by its units' powers of the columns' spreads; locations move
    with the centres. A value that does not depend on the input axis, such as one lengthscale for
    all columns, becomes one value per column.
    """
    return _moved(module, units(module), scales)


def _moved(node: Any, measured: Any, scales: Scales) -> Any:
    """The node with its arrays moved; `measured` is the same node of the tree of units."""
    if isinstance(measured, Units):
        return _scaled(node, measured, scales)
    if not isinstance(node, eqx.Module):
        return node
    inner = _within(node, scales)
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, eqx.Module) or eqx.is_inexact_array(value):
            new = _moved(value, getattr(measured, field.name), inner)
            node = eqx.tree_at(lambda m, name=field.name: getattr(m, name), node, new)
    return node


@functools.singledispatch
def _within(node: eqx.Module, scales: Scales) -> Scales:
    """The scales of the inputs that a part of a model sees."""
    return scales


@_within.register
def _(node: Active, scales: Scales) -> Scales:
    return scales.columns(node.dims)


@_within.register
def _(node: SumOver, scales: Scales) -> Scales:
    return scales.parts(node.parts)


@_within.register
def _(node: AbstractStationary, scales: Scales) -> Scales:
    return scales if node.groups is None else scales.grouped(node.groups)


def _scaled(value: Any, unit: Units, scales: Scales) -> np.ndarray:
    factor = scales.x_unit**unit.input if unit.input else np.ones(())
    moved = np.asarray(value, np.float64) * factor * scales.y_spread**unit.output
    return np.asarray(moved + scales.x_centre if unit.location else moved)


def coordinate_scales(model: Any, maps: Any, whole: Scales) -> np.ndarray:
    """Step sizes of the free coordinates: 1 on logarithmic scales, data units elsewhere.

    Locations among the inputs, such as inducing points, have `LOCATION` of these. In layers of a
    deep model units are those of hidden values.
    """
    parts = []
    for value, b, unit, scales in free_parts(model, maps, *_measured(model, whole)):
        shape = np.shape(value)
        if b != Real():
            parts.append(np.ones(int(np.prod(shape))))
            continue
        spread = scales.x_spread**unit.input if unit.input else np.ones(())
        if spread.shape and (not shape or shape[-1] != spread.shape[0]):
            spread = np.exp(np.mean(np.log(spread)))
        spread = LOCATION * spread if unit.location else spread
        parts.append(np.ravel(np.broadcast_to(spread * scales.y_spread**unit.output, shape)))
    return np.concatenate([*parts, np.zeros(0)])


def coordinate_bounds(model: Any, maps: Any, whole: Scales) -> np.ndarray:
    """Bounds of the free coordinates about their start at 0, (parameters, 2).

    Logarithms of positive parameters stay within `REACH`, and those of variances do not fall
    below that of `LEAST_VARIANCE` times the outputs' variance: noise that small is lost in the
    rounding errors of a covariance matrix.
    """
    parts = []
    for value, b, unit, scales in free_parts(model, maps, *_measured(model, whole)):
        start = np.ravel(np.asarray(value, np.float64))
        reach = np.full(start.size, REACH if isinstance(b, Positive) else np.inf)
        lower = -reach
        if b == Positive() and unit == Units(output=2):
            least = np.log(LEAST_VARIANCE) + 2.0 * np.log(scales.y_spread)
            lower = np.clip(least - np.log(start), lower, 0.0)
        parts.append(np.column_stack([lower, reach]))
    return np.concatenate([*parts, np.zeros((0, 2))])


def _measured(model: Any, scales: Scales) -> tuple[Any, Any]:
    """The units of a model's parameters, and the scales of what they are units of."""
    measured, columns = units(model), plain_columns(model)
    if columns is not None:
        scales = scales.columns(tuple(range(columns)))
    within = jax.tree.map(lambda _: scales, measured, is_leaf=is_entry)
    layers = layers_of(model)
    for i, own in enumerate(_of_layers(layers, scales)):
        tree = jax.tree.map(lambda _, own=own: own, measured.layers[i], is_leaf=is_entry)
        within = eqx.tree_at(lambda m, i=i: m.layers[i], within, tree)
    return measured, within


def _of_layers(layers: Sequence[Layer], scales: Scales) -> list[Scales]:
    """The scales of inputs and outputs of each layer, from those of the data."""
    found = [scales] if layers else []
    for below, layer in itertools.pairwise(layers):
        centre, spread = _hidden(below, layer, found[-1])
        typical = float(np.exp(np.mean(np.log(spread))))
        found[-1] = dataclasses.replace(found[-1], y_spread=typical)
        if layer.skip_connection:
            centre = np.concatenate([centre, scales.x_centre])
            spread = np.concatenate([spread, scales.x_spread])
        found.append(dataclasses.replace(scales, x_centre=centre, x_spread=spread))
    return found


def _hidden(below: Layer, layer: Layer, scales: Scales) -> tuple[np.ndarray, np.ndarray]:
    """Centre and spread of hidden values: those of the prior mean of the layer below.

    Where that is constant, values spread as the inducing points that see them.
    """
    centre, spread = scales.x_centre, scales.x_spread
    latent = (input_columns(below.groups[0][1]) or len(centre)) - len(centre)  # of variance 1
    centre, spread = np.append(centre, np.zeros(latent)), np.append(spread, np.ones(latent))
    mean = OutputMean(below.mean, below.width)
    first, *moved = np.asarray(mean(jnp.asarray([centre, *(centre + np.diag(spread))])))
    own = np.sqrt(np.sum((np.asarray(moved) - first) ** 2, axis=0))
    places = _places(layer)
    seen = np.ones(below.width) if places is None else places.spread[: below.width]
    return first, np.where(own > 0.0, own, seen)


def _places(layer: Layer) -> Tally | None:
    """The tally of a layer's inducing points; None for other inducing variables."""
    try:
        return tally(np.concatenate([inducing_points(z) for _, z, _ in layer.groups]))
    except ValueError:
        return None


def row_tallies(rows: Rows, likelihood: Any) -> Tallies:
    """Counts and moments of the inputs, and of the latent function as the outputs tell it."""
    return latent_tallies(summable_tallies(rows, likelihood), likelihood)


def latent_tallies(tallies: Tallies, likelihood: AbstractLikelihood) -> Tallies:
    """The tallies of all rows, from the sum of those of their parts.

    The latent values of two classes depend on the share of each among all rows: the log odds, and
    a unit to either side.
    """
    x, y = tallies
    if not _of_two_classes(likelihood):
        return x, y
    centre = log_odds(y.mean, y.count)
    ends = centre + 2.0 * (np.array([[0.0], [1.0]]) - y.mean)
    there = np.array([y.mean < 1.0, y.mean > 0.0])
    largest = np.max(np.where(there, np.abs(ends), 0.0), axis=0)
    return x, Tally(y.count, centre, 4.0 * y.squares, largest)


def _of_two_classes(likelihood: AbstractLikelihood) -> bool:
    with_rule = capability(likelihood, HasInitialLatents)
    return likelihood.support is Support.LABELS and with_rule is None


def summable_tallies(rows: Rows, likelihood: AbstractLikelihood) -> Tallies:
    """As `row_tallies` of some of the rows, but of two classes moments of the labels."""
    y = np.asarray(rows.y, np.float64).reshape(-1, rows.y.shape[-1])
    x = np.asarray(rows.x, np.float64).reshape(y.shape[0], -1)
    if not x.shape[1]:  # latent inputs have variance 1
        x = np.where(np.arange(y.shape[0])[:, None] % 2, 1.0, -1.0)
    presence = np.asarray(rows.presence, np.float64).reshape(y.shape[0], -1)
    weights = presence.max(axis=1, keepdims=True)
    seen = weights[:, 0] > 0.0  # padding is not data
    inputs = tally(x[seen], weights[seen])
    if likelihood.support is not Support.REAL and not _of_two_classes(likelihood):
        side = {name: np.asarray(x, np.float64) for name, x in rows.columns.items()}
        known = {name: values.ravel()[seen] for name, values in side.items()}
        known["weight"] = weights[seen, 0]
        columns = [initial_latents(likelihood, column, **known) for column in y[seen].T]
        # of classes a column for each
        return inputs, tally(np.column_stack(columns), presence[seen])
    return inputs, tally(y[seen], presence[seen])
