"""A problem: a model laid out on data, as solvers use it.

Solvers know graphs and sites, not models or tables. A solver that needs a variation of the model,
with a share of its powers or with wider noise, asks the problem for it.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Graph, Sites, adopted, empty_sites
from cavity.inference.factors.slots import is_started
from cavity.inference.graph.rows import Rows
from cavity.numerics.jit import compiled, shapes_of
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.types import Scalar

# Tolerances are not below this many rounding units.
ROUNDING = 100.0


class AbstractGraphBuilder(eqx.Module):
    """The way from parameters and data to a graph.

    To implement:
        the fields, `coupled`, `has_noise_scale`, `ordered`, `by_descent`, `graph(jitter)`, and
        three variations:
        `approximated_by(approximation)`, `at_power_share(share)` and `at_noise_scale(factor)`.
    """

    approximation: eqx.AbstractVar[AbstractApproximation]
    rows: eqx.AbstractVar[Rows]
    power: eqx.AbstractVar[Power]

    @property
    @abc.abstractmethod
    def coupled(self) -> bool:
        """Whether messages are not linear in the sites, as those of coupled classes are not."""

    @property
    @abc.abstractmethod
    def has_noise_scale(self) -> bool:
        """Whether the likelihood has parameters in units of the output."""

    @property
    @abc.abstractmethod
    def ordered(self) -> bool:
        """Whether rows are times, with states that approximations store in different forms."""

    @property
    @abc.abstractmethod
    def by_descent(self) -> bool:
        """Whether private sites are found by descent on the energy, which they minimise."""

    @abc.abstractmethod
    def graph(self, jitter: Scalar) -> Graph:
        """The model laid out as variables and factors."""

    @abc.abstractmethod
    def approximated_by(self, approximation: AbstractApproximation) -> "AbstractGraphBuilder":
        """The same with another approximation."""

    @abc.abstractmethod
    def at_power_share(self, share: Scalar | float) -> "AbstractGraphBuilder":
        """The same with all powers multiplied by a number."""

    @abc.abstractmethod
    def at_noise_scale(self, factor: Scalar | float) -> "AbstractGraphBuilder":
        """The same with noise so many times as wide."""


class Problem(eqx.Module):
    """Inference at fixed parameters: a graph, and variations of it.

    Attributes:
        build: the way to the graph.
        jitter: share of the mean prior variance added to the diagonal of a covariance.
    """

    build: AbstractGraphBuilder
    jitter: Scalar

    def graph(self) -> Graph:
        """The model laid out for inference."""
        return self.build.graph(self.jitter)

    @property
    def approximation(self) -> AbstractApproximation:
        """What stands in the place of the likelihood terms."""
        return self.build.approximation

    def approximated_by(self, approximation: AbstractApproximation) -> "Problem":
        """The same problem with another approximation."""
        return Problem(self.build.approximated_by(approximation), self.jitter)

    def at_power_share(self, share: Scalar | float) -> "Problem":
        """The same problem with all powers multiplied by a number."""
        return Problem(self.build.at_power_share(share), self.jitter)

    def at_noise_scale(self, factor: Scalar | float) -> "Problem":
        """The same problem with noise so many times as wide."""
        return Problem(self.build.at_noise_scale(factor), self.jitter)

    @property
    def coupled(self) -> bool:
        """Whether messages are not linear in the sites."""
        return self.build.coupled

    @property
    def chained(self) -> bool:
        """Whether rows have sites on states in time, on which those of their neighbours bear."""
        return shapes_of(_any_chained, self)

    @property
    def flat(self) -> bool:
        """Whether variables with a flat prior need sites to have a proper belief at all."""
        return shapes_of(_any_flat, self)

    @property
    def layered(self) -> bool:
        """Whether rows see weights of several layers, whose sites depend on each other."""
        return self.flat and shapes_of(_any_layered, self)

    @property
    def scalar(self) -> bool:
        """Whether all sites are scalar Gaussians, as Newton's method needs."""
        return shapes_of(_all_scalar, self)

    @property
    def has_noise_scale(self) -> bool:
        """Whether the noise can be made wider."""
        return self.build.has_noise_scale

    @property
    def blocked(self) -> bool:
        """Whether rows come in blocks."""
        return self.build.rows.blocked

    @property
    def variational(self) -> bool:
        """Whether the power is exactly 0 for all rows."""
        return is_exactly(self.build.power, 0.0) and self.build.rows.power is None

    @property
    def row_power(self) -> Power:
        """The power, one number or one per row and output."""
        rows = self.build.rows
        return self.build.power if rows.power is None else rows.power[:, None]

    def attainable(self, tolerance: float) -> float:
        """A tolerance that the precision of the data allows."""
        return max(tolerance, ROUNDING * float(np.finfo(self.build.rows.y.dtype).eps))

    def empty_sites(self) -> Sites:
        """Sites of precision zero; a tree without leaves where every factor is exact.

        Those that an optimiser moves, those of states in time, and those that make flat priors
        proper, are where a search starts.
        """
        shapes, chained, flat = shapes_of(_empty_sites, self)
        started = any(map(is_started, jax.tree.leaves(shapes, is_leaf=is_started)))
        if started or chained or flat:
            return _starting_sites(self)
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    def adopted(self, sites: Sites) -> Sites:
        """Sites that another approximation left, in the form that this one stores."""
        return _adopted(self, sites) if self.build.ordered else sites

    @property
    def by_descent(self) -> bool:
        """Whether private sites are found by descent on the energy, which they minimise."""
        return self.build.by_descent

    def stationary(self) -> bool:
        """Whether the energy is stationary in private sites at a fixed point."""
        return shapes_of(_all_stationary, self)


def _empty_sites(problem: Problem) -> tuple[Sites, bool, bool]:
    """The sites, and whether any variable is chained or flat."""
    graph = problem.graph()
    return empty_sites(graph), _chained(graph), _flat(graph)


def _chained(graph: Graph) -> bool:
    return any(variable.chained for variable in graph.variables)


def _flat(graph: Graph) -> bool:
    return any(variable.flat for variable in graph.variables)


def _any_chained(problem: Problem) -> bool:
    return _chained(problem.graph())


def _any_flat(problem: Problem) -> bool:
    return _flat(problem.graph())


def _any_layered(problem: Problem) -> bool:
    factors = problem.graph().factors
    return any(edge.view.layered for factor in factors for edge in factor.edges)


def _all_scalar(problem: Problem) -> bool:
    factors = problem.graph().factors
    return all(edge.view.scalar for factor in factors for edge in factor.edges)


def _all_stationary(problem: Problem) -> bool:
    return all(factor.stationary for factor in problem.graph().factors)


@compiled
def _starting_sites(problem: Problem) -> Sites:
    return empty_sites(problem.graph())


@compiled
def _adopted(problem: Problem, sites: Sites) -> Sites:
    return adopted(problem.graph(), sites)


def has_sites(sites: Sites) -> bool:
    """Whether any factor stores sites."""
    return bool(jax.tree.leaves(sites))
