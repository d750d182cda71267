"""The function that learning minimises: energy minus log priors, of parameters and sites."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Graph, Sites, batch_energy, energy
from cavity.inference.factors.slots import ObservedRows, is_optimised, is_optimised_per_row
from cavity.inference.factors.tied import natural_step
from cavity.inference.implicit_gradient import implicit_gradient, stationary
from cavity.inference.problem import has_sites
from cavity.learning.data.training_data import Data, some_rows
from cavity.learning.data.validation import all_fixed
from cavity.models.base import AbstractModel
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float, Int, Scalar
from cavity.parameters import bijections, from_real, to_real
from cavity.parameters.priors import flat, learned_with


class Point(NamedTuple):
    """A point of learning.

    Attributes:
        move: of the unconstrained parameters.
        flat_sites: tied sites as a vector.
        private: private sites.
    """

    move: Array | np.ndarray
    flat_sites: Array | np.ndarray
    private: Sites


class RowsSeen(NamedTuple):
    """Rows by which an energy is evaluated.

    Attributes:
        jitter: share of the mean prior variance added to the diagonal of a covariance.
        scale: rows in all the data for each of these.
        index: their positions; None for all of them.
    """

    jitter: Array | np.ndarray
    scale: Array | np.ndarray
    index: Array | np.ndarray | None = None


class LearningEnergy(eqx.Module):
    """Energy minus log priors, as a function of moves of the parameters and of sites.

    Attributes:
        start: the model from which parameters move.
        maps: bijections.
        densities: priors.
        approximation: what stands in the place of the likelihood terms.
        origin: the unconstrained parameters of the starting model.
        tied: tied sites, whose structure gives that of vectors of tied sites.
        total: the number of observed rows in all the data, where sites are tied.
    """

    start: AbstractModel
    maps: AbstractModel
    densities: AbstractModel
    approximation: AbstractApproximation
    origin: Float[Array, " parameters"]
    tied: Sites
    total: ObservedRows | None = None

    def model(self, move: Float[Array, " parameters"]) -> AbstractModel:
        """The model after a move of the unconstrained parameters."""
        return from_real(self.origin + move, self.start, self.maps)

    def log_prior(self, model: AbstractModel) -> Scalar:
        """The log prior density of a model's parameters that learning adds."""
        return learned_with(model, self.densities)

    def graph(
        self, model: AbstractModel, data: Data, jitter: Scalar, scale: Scalar | float = 1.0
    ) -> Graph:
        """The model laid out on data, each row of which stands for `scale` rows."""
        return data.problem(
            model, self.approximation, jitter, total=self.total, scale=scale
        ).graph()

    def unravel(self, flat_sites: Float[Array, " sites"]) -> Sites:
        """The tied sites of a vector."""
        return ravel_pytree(self.tied)[1](flat_sites)

    def function(self, data: Data, seen: RowsSeen) -> Callable[[Array, Array, Sites], Scalar]:
        """The function of a move, of tied sites as a vector, and of private sites."""
        jitter, scale, index = jax.tree.map(jnp.asarray, seen)
        if self.start.ordered and index is not None:
            return self._batch_loss(data, jitter, scale, index)
        rows = data if index is None else some_rows(data, index)
        scaling = 1.0 if self.total is None else scale

        def loss(move: Array, flat_sites: Array, private: Sites) -> Scalar:
            model = self.model(move)
            graph = self.graph(model, rows, jitter, scaling)
            sites = join_optimised(self.unravel(flat_sites), private)
            value = energy(graph, sites, settled=True) - self.log_prior(model)
            if has_sites(private) and not stationary(graph):
                newton = self.approximation.evaluation_point is EvaluationPoint.MODE
                value = value + implicit_gradient(graph, sites, newton=newton)
            return value

        return loss

    def _batch_loss(
        self, data: Data, jitter: Scalar, scale: Scalar, index: Int[Array, " n"]
    ) -> Callable[[Array, Array, Sites], Scalar]:
        """The function for rows that see their neighbours: some of all rows laid out."""

        def loss(move: Array, flat_sites: Array, private: Sites) -> Scalar:
            model = self.model(move)
            sites = join_optimised(self.unravel(flat_sites), private)
            graph = self.graph(model, data, jitter)
            return batch_energy(graph, sites, index, scale) - self.log_prior(model)

        return loss


def fixed_objective(model: AbstractModel, approximation: AbstractApproximation) -> LearningEnergy:
    """The energy at the parameters of a model, without sites."""
    maps = all_fixed(bijections(model))
    return LearningEnergy(model, maps, flat(model), approximation, to_real(model, maps), ())


def value_and_grad(
    objective: LearningEnergy,
    data: Data,
    point: Point,
    seen: RowsSeen,
) -> tuple[Scalar, Array, Array]:
    """The value, and its gradients in the parameters and in the tied sites."""
    value, slopes = jax.value_and_grad(objective.function(data, seen), argnums=(0, 1))(*point)
    return value, *slopes


def natural_update(
    objective: LearningEnergy,
    data: Data,
    point: Point,
    seen: RowsSeen,
    step: Scalar,
) -> tuple[Array, Scalar]:
    """The tied sites after a step of natural gradients, as a vector, and the value before it."""
    value, flat_slope = jax.value_and_grad(objective.function(data, seen), argnums=1)(*point)
    slope = objective.unravel(flat_slope)
    moved = jax.tree.map(
        lambda site, by: natural_step(site, by, step),
        objective.unravel(jnp.asarray(point.flat_sites)),
        slope,
        is_leaf=is_optimised,
    )
    return ravel_pytree(moved)[0], value


# for rows that are not in memory
value_and_grad_of_batch, natural_update_of_batch = (
    compiled(value_and_grad),
    compiled(natural_update),
)


def has_numbers_of_rows(sites: Sites) -> bool:
    """True if an optimiser moves numbers of every row."""
    return any(map(is_optimised_per_row, jax.tree.leaves(sites, is_leaf=is_optimised)))


def split_optimised(sites: Sites) -> tuple[Sites, Sites]:
    """Tied sites, and private sites, as trees with None in the place of the others."""
    where = jax.tree.map(is_optimised, sites, is_leaf=is_optimised)
    return eqx.partition(sites, where, is_leaf=is_optimised)


def join_optimised(tied: Sites, private: Sites) -> Sites:
    """The sites that `split_optimised` took apart."""
    return eqx.combine(tied, private, is_leaf=is_optimised)


def shaped_like(sites: Sites, wanted: Sites) -> Sites:
    """Sites to start from, which must have the arrays of those of the model."""

    def shapes(tree: Sites) -> list[tuple[int, ...]]:
        return [np.shape(leaf) for leaf in jax.tree.leaves(tree)]

    same = jax.tree.structure(sites) == jax.tree.structure(wanted)
    if not same or shapes(sites) != shapes(wanted):
        raise ValueError(
            f"sites to start from have arrays of shapes {shapes(sites)}, the model and its data "
            f"have {shapes(wanted)}: give `found` of a result for the same kind of model and "
            "method, and as many rows"
        )
    return sites
