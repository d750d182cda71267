"""Schedules: how sites are brought to a fixed point, and the record of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites, beliefs, energy
from cavity.inference.solvers.anderson import Past, no_past
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Bool, Float, Int, Scalar

# Sweeps without coming a tenth closer, and the shortest step, after which there is no hope.
PATIENCE, SHORTEST = 60, 1e-3
# The shortest step of a descent: the first of Newton's method for a count of a billion is 1e-8.
LEAST = 1e-12
# Sweeps are extrapolated where the residual is below this many times the one before.
CALM = 2.0


class SweepRecord(eqx.Module):
    """How the sweeps ended.

    Attributes:
        sweeps: sweeps made.
        residual: the largest change of a moment that a further full step would make, in
            standard deviations.
        skipped: sites skipped in the last sweep because their cavity was not proper.
        converged: whether the residual fell below the tolerance with no site skipped.
    """

    sweeps: Int[Array, ""]
    residual: Float[Array, ""]
    skipped: Float[Array, ""]
    converged: Bool[Array, ""]


def sweep(graph: Graph, sites: Sites, step: Power) -> tuple[Sites, Array, Array]:
    """One parallel sweep: every site once, all from the same beliefs.

    Args:
        graph: the model laid out for inference.
        sites: where to start.
        step: the damping step in (0, 1]; 1 jumps to the matched site.

    Returns:
        The sites, the residual before the sweep (infinite where a belief is not proper), and the
        number of sites skipped.
    """
    return _measured(graph, sites, step)[:3]


def _measured(graph: Graph, sites: Sites, step: Power) -> tuple[Sites, Array, Array, Sites]:
    """`sweep`, with the units of the sites there."""
    q = beliefs(graph, sites)
    proper = jnp.all(jnp.stack([jnp.isfinite(belief.log_normaliser) for belief in q]))
    pairs = zip(graph.factors, sites, strict=True)
    updates = [factor.update(q, store, step) for factor, store in pairs]
    residual, skipped = jnp.where(proper, 0.0, jnp.inf), jnp.zeros(())
    for update in updates:
        residual = jnp.maximum(residual, update.residual)
        skipped = skipped + update.skipped
    scale = tuple(update.fisher_scale for update in updates)
    return tuple(update.sites for update in updates), residual, skipped, scale


def parallel(
    graph: Graph,
    sites: Sites,
    *,
    step: Power | None,
    tolerance: float | Array,
    max_sweeps: int | Array,
    longest: Power = 1.0,
) -> tuple[Sites, SweepRecord]:
    """Parallel sweeps until a further one would change no moment by more than `tolerance`.

    A sweep that leaves no proper belief is taken back to half its length. They end early where
    they have stopped to come closer. With an adapted step they are extrapolated (Anderson
    acceleration), which does away with directions in which sweeps alone creep.

    Args:
        graph: the model laid out for inference; constant under differentiation here.
        sites: where to start.
        step: the damping step, None to adapt it: the longest at first, shorter ones where a sweep
            came no closer.
        tolerance: on the residual, in standard deviations.
        max_sweeps: sweeps at the most.
        longest: the longest adapted step.
    """
    adapt = step is None
    longest = jnp.asarray(longest, _dtype(sites))
    first = longest if step is None else jnp.asarray(step, _dtype(sites))

    def unfinished(state: _Sweeps) -> Array:
        good = (state.residual < tolerance) & (state.skipped == 0)
        lost = (state.step < SHORTEST) | (state.count - state.nearest_at > PATIENCE)
        return (state.count < max_sweeps) & ~good & ~lost

    def once(state: _Sweeps) -> _Sweeps:
        target, residual, skipped, units = _measured(graph, state.sites, 1.0)
        finite = jnp.isfinite(residual)
        closer = finite & (residual < state.residual)
        longer, shorter = (jnp.minimum(1.25 * state.step, longest), 0.7 * state.step)
        kept = jnp.where(closer, longer, shorter) if adapt else state.step
        length = jnp.where(finite, kept, 0.5 * state.step)
        # from sites without a proper belief: back, and less far
        base = _choose(finite, state.sites, state.base)
        target = _choose(finite, target, state.target)
        past = state.past
        if adapt:
            calm = finite & (skipped == 0) & (residual < CALM * jnp.minimum(state.residual, 1.0))
            new, past = past.extrapolated(base, target, units, length, calm)
        else:
            new = jax.tree.map(lambda old, to: old + length * (to - old), base, target)
        nearer = finite & (residual < 0.9 * state.nearest)
        better = finite & (skipped == 0) & (residual < state.best_residual)
        return _Sweeps(
            sites=new,
            base=base,
            target=target,
            step=length,
            residual=jnp.where(finite, residual, jnp.inf),
            skipped=jnp.where(finite, skipped, jnp.inf),
            count=state.count + 1,
            nearest=jnp.where(nearer, residual, state.nearest),
            nearest_at=jnp.where(nearer, state.count, state.nearest_at),
            best=_choose(better, state.sites, state.best),
            best_residual=jnp.where(better, residual, state.best_residual),
            past=past,
        )

    infinite, zero = jnp.full((), jnp.inf), jnp.zeros((), int)
    unknown = (infinite, infinite, infinite, jnp.zeros(()))
    start = _Sweeps(sites, sites, sites, sites, first, *unknown, zero, zero, no_past(sites))
    end = jax.lax.while_loop(unfinished, once, start)
    converged = (end.residual < tolerance) & (end.skipped == 0)
    # sites that met the tolerance before their last step, or those that came nearest
    found = _choose(converged, end.sites, end.best)
    return found, SweepRecord(end.count, end.residual, end.skipped, converged)


def descend(
    graph: Graph,
    sites: Sites,
    *,
    tolerance: float | Array,
    max_sweeps: int | Array,
    value_of: Callable[[Graph, Sites], Scalar] = energy,
) -> tuple[Sites, SweepRecord]:
    """Parallel sweeps, each shortened until a value falls.

    At power 0, where the energy is a bound, a sweep is a natural-gradient step; of methods that
    see the mean alone it is one of Newton's method for `negative_log_joint`. A short enough one
    cannot go uphill.
    """

    def unfinished(state: tuple) -> Array:
        _, _, residual, skipped, count, stuck = state
        good = (residual < tolerance) & (skipped == 0)
        return (count < max_sweeps) & ~good & ~stuck

    def once(state: tuple) -> tuple:
        now, value, _, _, count, _ = state
        target, residual, skipped = sweep(graph, now, 1.0)

        def at(length: Array) -> Sites:
            return jax.tree.map(lambda old, to: old + length * (to - old), now, target)

        def uphill(length: Array) -> Array:
            # a comparison with NaN is false
            rise = 1e-13 * jnp.abs(value)
            return ~(value_of(graph, at(length)) <= value + rise) & (length > LEAST)

        one = jnp.ones((), _dtype(sites))
        length = jax.lax.while_loop(uphill, lambda length: 0.5 * length, one)
        new = at(length)
        stuck = length <= LEAST
        return _choose(stuck, now, new), value_of(graph, new), residual, skipped, count + 1, stuck

    infinite, none = jnp.full((), jnp.inf, _dtype(sites)), jnp.zeros((), bool)
    first = value_of(graph, sites)
    first = jnp.where(jnp.isfinite(first), first, jnp.inf)
    start = (sites, first, infinite, jnp.zeros((), _dtype(sites)), jnp.zeros((), int), none)
    found, _, residual, skipped, count, _ = jax.lax.while_loop(unfinished, once, start)
    return found, SweepRecord(count, residual, skipped, (residual < tolerance) & (skipped == 0))


class _Sweeps(NamedTuple):
    sites: Sites
    base: Sites
    target: Sites
    best: Sites
    step: Array
    residual: Array
    best_residual: Array
    nearest: Array
    skipped: Array
    count: Array
    nearest_at: Array
    past: Past


def _dtype(sites: Sites) -> Any:
    return jax.tree.leaves(sites)[0].dtype


def _choose(first: Array, a: Sites, b: Sites) -> Sites:
    return jax.tree.map(lambda x, y: jnp.where(first, x, y), a, b)
