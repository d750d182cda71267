"""A problem: a model laid out on data, as solvers use it.

Solvers know graphs and sites, not models or tables. A solver that needs a variation of the model,
with a share of its powers or with wider noise, asks the problem for it.
"""

import abc
from typing import NamedTuple

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
        the fields, `coupled`, `has_noise_scale`, `ordered`, `uses_descent`, `graph(jitter)`, and
        three variations:
        `approximated_by(approximation)`, `at_power_share(share)` and `at_noise_scale(factor)`.
    """

    approximation: eqx.AbstractVar[AbstractApproximation]
    rows: eqx.AbstractVar[Rows]
    power: eqx.AbstractVar[Power]

    @property
    @abc.abstractmethod
    def coupled(self) -> bool:
        """True if messages are not linear in the sites, as for coupled classes."""

    @property
    @abc.abstractmethod
    def has_noise_scale(self) -> bool:
        """True if the likelihood has parameters in units of the output."""

    @property
    @abc.abstractmethod
    def ordered(self) -> bool:
        """True if rows are times, with states that approximations store in different forms."""

    @property
    @abc.abstractmethod
    def uses_descent(self) -> bool:
        """True if private sites are found by descent on the energy, which they minimise."""

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
        """Approximation of the likelihood terms."""
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
        """True if messages are not linear in the sites."""
        return self.build.coupled

    @property
    def layout(self) -> "Layout":
        """Properties of the graph that do not depend on numbers."""
        return shapes_of(_layout, self)

    @property
    def flat(self) -> bool:
        """True if variables with a flat prior need sites to have a proper belief at all."""
        return self.layout.flat

    @property
    def layered(self) -> bool:
        """True if rows see weights of several layers, whose sites depend on each other."""
        layout = self.layout
        return layout.flat and layout.layered

    @property
    def scalar(self) -> bool:
        """True if all sites are scalar Gaussians, as Newton's method needs."""
        return self.layout.scalar

    @property
    def has_noise_scale(self) -> bool:
        """True if the noise can be made wider."""
        return self.build.has_noise_scale

    @property
    def blocked(self) -> bool:
        """True if rows come in blocks."""
        return self.build.rows.blocked

    @property
    def variational(self) -> bool:
        """True if the power is exactly 0 for all rows."""
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

        Sites that an optimiser moves, sites on several values at once, and sites that make flat
        priors proper have their starting values instead.
        """
        layout = self.layout
        started = any(map(is_started, jax.tree.leaves(layout.sites, is_leaf=is_started)))
        if started or layout.flat or not layout.scalar:
            return _starting_sites(self)
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), layout.sites)

    def adopted(self, sites: Sites) -> Sites:
        """Sites that another approximation left, in the form that this one stores."""
        return _adopted(self, sites) if self.build.ordered else sites

    @property
    def uses_descent(self) -> bool:
        """True if private sites are found by descent on the energy, which they minimise."""
        return self.build.uses_descent

    def stationary(self) -> bool:
        """True if the energy is stationary in private sites at a fixed point."""
        return self.layout.stationary


class Layout(NamedTuple):
    """Properties of a graph that do not depend on numbers.

    Attributes:
        sites: the shapes of its sites.
        flat: whether variables have a flat prior.
        layered: whether factors see weights of several layers.
        scalar: whether all sites are scalar Gaussians.
        stationary: whether the energy is stationary in private sites at a fixed point.
    """

    sites: Sites
    flat: bool
    layered: bool
    scalar: bool
    stationary: bool


def _layout(problem: Problem) -> Layout:
    graph = problem.graph()
    views = [edge.view for edge in graph.edges]
    return Layout(
        sites=empty_sites(graph),
        flat=any(variable.flat for variable in graph.variables),
        layered=any(view.layered for view in views),
        scalar=all(view.scalar for view in views),
        stationary=all(factor.stationary for factor in graph.factors),
    )


@compiled
def _starting_sites(problem: Problem) -> Sites:
    return empty_sites(problem.graph())


@compiled
def _adopted(problem: Problem, sites: Sites) -> Sites:
    return adopted(problem.graph(), sites)


def has_sites(sites: Sites) -> bool:
    """True if any factor stores sites."""
    return bool(jax.tree.leaves(sites))
