"""Descent: sweeps that are shortened until the energy, or another value, falls."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites, energy
from cavity.inference.solvers.anderson import AndersonHistory, empty_history
from cavity.inference.solvers.parallel import (
    SweepRecord,
    choose,
    dtype_of,
    measured_sweep,
    squared_change,
    sweep,
)
from cavity.inference.solvers.settings import SweepSettings
from cavity.numerics.types import Array, Scalar

# A value that is so much higher, relative to itself, is not uphill but rounding.
ROUNDING = 1e-13
# So many sweeps one after the other that gain less than this, in nats, end a descent.
LEVEL, LEAST_FALL = 5, 1e-8


def descend(
    graph: Graph,
    sites: Sites,
    *,
    tolerance: float | Array,
    max_sweeps: int | Array,
    value_of: Callable[[Graph, Sites], Scalar] = energy,
    settings: SweepSettings = SweepSettings(),
) -> tuple[Sites, SweepRecord]:
    """Parallel sweeps with a line search: each is shortened until a value falls.

    At power 0, where the energy is a bound, a sweep is a natural-gradient step; of methods that
    see the mean alone it is one of Newton's method for `negative_log_joint`. A short enough one
    cannot go uphill.
    """

    def unfinished(state: _DescentState) -> Array:
        converged = (state.residual < tolerance) & (state.skipped == 0)
        return (state.sweeps < max_sweeps) & ~converged & ~state.stuck

    def once(state: _DescentState) -> _DescentState:
        image, residual, skipped = sweep(graph, state.sites, 1.0)

        def at(length: Array) -> Sites:
            return jax.tree.map(lambda old, to: old + length * (to - old), state.sites, image)

        def uphill(length: Array) -> Array:
            # a comparison with NaN is false
            ceiling = state.value + ROUNDING * jnp.abs(state.value)
            return ~(value_of(graph, at(length)) <= ceiling) & (length > settings.shortest_descent)

        one = jnp.ones((), dtype_of(sites))
        length = jax.lax.while_loop(uphill, lambda length: 0.5 * length, one)
        new = at(length)
        stuck = length <= settings.shortest_descent
        sites_now = choose(stuck, state.sites, new)
        count = state.sweeps + 1
        return _DescentState(sites_now, value_of(graph, new), residual, skipped, count, stuck)

    dtype = dtype_of(sites)
    infinite, false = jnp.full((), jnp.inf, dtype), jnp.zeros((), bool)
    first = value_of(graph, sites)
    first = jnp.where(jnp.isfinite(first), first, jnp.inf)
    start = _DescentState(sites, first, infinite, jnp.zeros((), dtype), jnp.zeros((), int), false)
    end = jax.lax.while_loop(unfinished, once, start)
    converged = (end.residual < tolerance) & (end.skipped == 0)
    return end.sites, SweepRecord(end.sweeps, end.residual, end.skipped, converged)


class _DescentState(NamedTuple):
    sites: Sites
    value: Array
    residual: Array
    skipped: Array
    sweeps: Array
    stuck: Array


def accelerated(
    graph: Graph,
    sites: Sites,
    *,
    tolerance: float | Array,
    max_sweeps: int | Array,
    enough: float | Array,
    settings: SweepSettings = SweepSettings(),
) -> tuple[Sites, SweepRecord]:
    """Descent on an energy that private sites minimise, extrapolated where that goes downhill.

    Args:
        graph: the model laid out for inference; constant under differentiation here.
        sites: where to start.
        tolerance: on the residual, in standard deviations.
        max_sweeps: sweeps at the most.
        enough: sweeps end too where the squares of all changes, in deviations, add up to less than
            this, and none is above `settings.nearby`.
        settings: when sweeps end, and their extrapolation.
    """
    one = jnp.ones((), dtype_of(sites))

    def settled(state: _AcceleratedState) -> Array:
        small = (state.change < enough) | (state.level >= LEVEL)
        return (state.residual < tolerance) | (small & (state.residual < settings.nearby))

    def unfinished(state: _AcceleratedState) -> Array:
        return (state.sweeps < max_sweeps) & ~settled(state) & ~state.stuck

    infinite, false = jnp.full((), jnp.inf, one.dtype), jnp.zeros((), bool)
    value, history = energy(graph, sites), empty_history(sites, settings.anderson)
    value = jnp.where(jnp.isfinite(value), value, jnp.inf)
    count = jnp.zeros((), int)
    start = _AcceleratedState(sites, value, infinite, infinite, count, count, false, history)
    end = jax.lax.while_loop(unfinished, lambda now: _next(graph, now, settings), start)
    # where rounding hides a further descent, sites are as near as they come
    near = end.stuck & (end.residual < settings.nearby)
    return end.sites, SweepRecord(end.sweeps, end.residual, jnp.zeros(()), settled(end) | near)


class _AcceleratedState(NamedTuple):
    sites: Sites
    value: Array
    residual: Array
    change: Array
    sweeps: Array
    level: Array
    stuck: Array
    history: AndersonHistory


def _next(graph: Graph, state: _AcceleratedState, settings: SweepSettings) -> _AcceleratedState:
    """One sweep: to the extrapolated point, or less far."""
    one = jnp.ones((), dtype_of(state.sites))
    result = measured_sweep(graph, state.sites, 1.0)
    image, ceiling = result.sites, state.value + ROUNDING * jnp.abs(state.value)
    rise = result.residual < settings.largest_rise * jnp.minimum(state.residual, 1.0)
    further, history = state.history.next_iterate(
        state.sites, image, result.fisher_scale, one, rise
    )

    def at(length: Array) -> Sites:
        return jax.tree.map(lambda old, to: old + length * (to - old), state.sites, image)

    def uphill(trial: tuple[Array, Sites, Array]) -> Array:
        length, _, value = trial
        # a comparison with NaN is false
        return ~(value <= ceiling) & (length > settings.shortest_descent)

    def shorter(trial: tuple[Array, Sites, Array]) -> tuple[Array, Sites, Array]:
        # the extrapolated point first, then full steps and shorter ones
        length = jnp.where(trial[0] > 1.0, 1.0, 0.5 * trial[0])
        new = at(length)
        return length, new, energy(graph, new)

    first = 2.0 * one, further, energy(graph, further)
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
