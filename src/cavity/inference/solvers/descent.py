"""Descent: sweeps that are shortened until the energy, or another value, falls."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites, energy
from cavity.inference.solvers.anderson import AndersonHistory, empty_history
from cavity.inference.solvers.driver import AbstractSweeps, SweepRecord
from cavity.inference.solvers.parallel import (
    choose,
    dtype_of,
    measured_sweep,
    squared_change,
    sweep,
)
from cavity.numerics.types import Array, Scalar

# A value that is so much higher, relative to itself, is not uphill but rounding.
ROUNDING = 1e-13
# So many sweeps one after the other that gain less than this, in nats, end a descent.
LEVEL, LEAST_FALL = 5, 1e-8


class _DescentState(NamedTuple):
    sites: Sites
    value: Array
    residual: Array
    skipped: Array
    sweeps: Array
    stuck: Array


class Descent(AbstractSweeps[_DescentState]):
    """Parallel sweeps with a line search: each is shortened until a value falls.

    At power 0, where the energy is a bound, a sweep is a natural-gradient step; of methods that
    see the mean alone it is one of Newton's method for `negative_log_joint`. A short enough one
    cannot go uphill.

    Attributes:
        value_of: the value that falls.
    """

    value_of: Callable[[Graph, Sites], Scalar] = eqx.field(static=True, default=energy)

    def init(self, sites: Sites) -> _DescentState:
        dtype, first = dtype_of(sites), self.value_of(self.graph, sites)
        infinite, zero = jnp.full((), jnp.inf, dtype), jnp.zeros((), dtype)
        first = jnp.where(jnp.isfinite(first), first, jnp.inf)
        return _DescentState(sites, first, infinite, zero, jnp.zeros((), int), jnp.zeros((), bool))

    def unfinished(self, state: _DescentState) -> Array:
        return ~self.met(state) & ~state.stuck

    def found(self, state: _DescentState) -> tuple[Sites, SweepRecord]:
        return state.sites, self.record(state, self.met(state))

    def step(self, state: _DescentState) -> _DescentState:
        image, residual, skipped = sweep(self.graph, state.sites, 1.0)

        def at(length: Array) -> Sites:
            return jax.tree.map(lambda old, to: old + length * (to - old), state.sites, image)

        def uphill(length: Array) -> Array:
            # a comparison with NaN is false
            ceiling = state.value + ROUNDING * jnp.abs(state.value)
            higher = ~(self.value_of(self.graph, at(length)) <= ceiling)
            return higher & (length > self.settings.shortest_descent)

        one = jnp.ones((), dtype_of(state.sites))
        length = jax.lax.while_loop(uphill, lambda length: 0.5 * length, one)
        new = at(length)
        stuck = length <= self.settings.shortest_descent
        sites, value = choose(stuck, state.sites, new), self.value_of(self.graph, new)
        return _DescentState(sites, value, residual, skipped, state.sweeps + 1, stuck)


class _AcceleratedState(NamedTuple):
    sites: Sites
    value: Array
    residual: Array
    change: Array
    sweeps: Array
    level: Array
    stuck: Array
    history: AndersonHistory

    @property
    def skipped(self) -> Array:
        """None are."""
        return jnp.zeros(())


class Accelerated(AbstractSweeps[_AcceleratedState]):
    """Descent on an energy that private sites minimise, extrapolated where that goes downhill."""

    def init(self, sites: Sites) -> _AcceleratedState:
        infinite, count = jnp.full((), jnp.inf, dtype_of(sites)), jnp.zeros((), int)
        value, history = energy(self.graph, sites), empty_history(sites, self.settings.anderson)
        value = jnp.where(jnp.isfinite(value), value, jnp.inf)
        false = jnp.zeros((), bool)
        return _AcceleratedState(sites, value, infinite, infinite, count, count, false, history)

    def settled(self, state: _AcceleratedState) -> Array:
        """True where a further sweep would change nothing that matters."""
        small = (state.change < self.limits.enough) | (state.level >= LEVEL)
        near = state.residual < self.settings.nearby
        return (state.residual < self.limits.tolerance) | (small & near)

    def unfinished(self, state: _AcceleratedState) -> Array:
        return ~self.settled(state) & ~state.stuck

    def found(self, state: _AcceleratedState) -> tuple[Sites, SweepRecord]:
        # where rounding hides a further descent, sites are as near as they come
        near = state.stuck & (state.residual < self.settings.nearby)
        return state.sites, self.record(state, self.settled(state) | near)

    def step(self, state: _AcceleratedState) -> _AcceleratedState:
        """One sweep: to the extrapolated point, or less far."""
        one = jnp.ones((), dtype_of(state.sites))
        result = measured_sweep(self.graph, state.sites, 1.0)
        image, ceiling = result.sites, state.value + ROUNDING * jnp.abs(state.value)
        rise = result.residual < self.settings.largest_rise * jnp.minimum(state.residual, 1.0)
        further, history = state.history.next_iterate(
            state.sites, image, result.fisher_scale, one, rise
        )

        def at(length: Array) -> Sites:
            return jax.tree.map(lambda old, to: old + length * (to - old), state.sites, image)

        def uphill(trial: tuple[Array, Sites, Array]) -> Array:
            length, _, value = trial
            # a comparison with NaN is false
            return ~(value <= ceiling) & (length > self.settings.shortest_descent)

        def shorter(trial: tuple[Array, Sites, Array]) -> tuple[Array, Sites, Array]:
            # the extrapolated point first, then full steps and shorter ones
            length = jnp.where(trial[0] > 1.0, 1.0, 0.5 * trial[0])
            new = at(length)
            return length, new, energy(self.graph, new)

        first = 2.0 * one, further, energy(self.graph, further)
        _, new, value = jax.lax.while_loop(uphill, shorter, first)
        stuck = ~(value <= ceiling)
        return _AcceleratedState(
            sites=choose(stuck, state.sites, new),
            value=jnp.where(stuck, state.value, value),
            residual=result.residual,
            change=squared_change(state.sites, result),
            sweeps=state.sweeps + 1,
            level=jnp.where(state.value - value < LEAST_FALL, state.level + 1, 0),
            stuck=stuck,
            history=history,
        )
