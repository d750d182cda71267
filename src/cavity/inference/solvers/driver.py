"""Sweeps until sites settle: one loop for steps of several kinds."""

import abc
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax

from cavity.inference.energy import Graph, Sites
from cavity.inference.solvers.settings import SweepSettings
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Bool, Float, Int


class SweepRecord(eqx.Module):
    """Result of the sweeps.

    Attributes:
        sweeps: sweeps made.
        residual: the largest change of a moment that a further full step from the sites that are
            returned would make, in standard deviations.
        skipped: sites skipped in the sweep from these because their cavity was not proper.
        converged: whether the residual fell below the tolerance with no site skipped.
    """

    sweeps: Int[Array, ""]
    residual: Float[Array, ""]
    skipped: Float[Array, ""]
    converged: Bool[Array, ""]


class Limits(NamedTuple):
    """End of sweeps, and the length of their steps.

    Attributes:
        tolerance: on the residual, in standard deviations.
        max_sweeps: sweeps at the most.
        step: the damping step; None to adapt it: the longest at first, shorter ones where a sweep
            came no closer.
        longest: the longest adapted step.
        enough: sweeps end too where the squares of all changes, in deviations, add up to less than
            this, and none is above `settings.nearby`.
    """

    tolerance: float | Array
    max_sweeps: int | Array
    step: Power | None = None
    longest: Power = 1.0
    enough: float | Array = 0.0


@runtime_checkable
class Progress(Protocol):
    """Sweeps under way."""

    @property
    def sweeps(self) -> Array: ...
    @property
    def residual(self) -> Array: ...
    @property
    def skipped(self) -> Array: ...


State = TypeVar("State", bound=Progress)


class AbstractSweeps(eqx.Module, Generic[State]):
    """Steps of one kind from sites to sites.

    To implement:
        `init(sites)`, `step(state)`, `unfinished(state)` and `found(state)`.

    Attributes:
        graph: the model laid out for inference; constant under differentiation here.
        limits: where sweeps end, and how long their steps are.
        settings: when they end early, and their extrapolation.
    """

    graph: Graph
    limits: Limits
    settings: SweepSettings = eqx.field(static=True, default=SweepSettings())

    @abc.abstractmethod
    def init(self, sites: Sites) -> State:
        """The state before the first sweep."""

    @abc.abstractmethod
    def step(self, state: State) -> State:
        """The state after one more sweep."""

    @abc.abstractmethod
    def unfinished(self, state: State) -> Array:
        """True where a further sweep may come closer and is worth it."""

    @abc.abstractmethod
    def found(self, state: State) -> tuple[Sites, SweepRecord]:
        """The sites of the last state, and how sweeps ended."""

    def met(self, state: State) -> Array:
        """True where a further sweep would change nothing by more than the tolerance."""
        return (state.residual < self.limits.tolerance) & (state.skipped == 0)

    def record(self, state: State, converged: Array) -> SweepRecord:
        """The record of sweeps that end here."""
        return SweepRecord(state.sweeps, state.residual, state.skipped, converged)

    def run(self, sites: Sites) -> tuple[Sites, SweepRecord]:
        """Sweeps from these sites until they settle or come no closer."""

        def proceed(state: State) -> Array:
            return (state.sweeps < self.limits.max_sweeps) & self.unfinished(state)

        def once(state: State) -> State:
            return self.step(state)

        return self.found(jax.lax.while_loop(proceed, once, self.init(sites)))
