"""Parallel sweeps: all sites move at once, from the same beliefs, until nothing changes."""

import functools
from collections.abc import Sequence
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites, beliefs, expected_terms
from cavity.inference.factors.base import Beliefs, SiteUpdate
from cavity.inference.solvers.anderson import AndersonHistory, empty_history
from cavity.inference.solvers.driver import AbstractSweeps, SweepRecord
from cavity.inference.variables.chain import ChainBelief
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array


class SweepResult(NamedTuple):
    """A sweep.

    Attributes:
        sites: the sites after it.
        residual: the largest change of a moment that a full step makes, in standard deviations;
            infinite where a belief is not proper.
        skipped: sites skipped because their cavity is not proper.
        fisher_scale: what changes of the sites' numbers are measured in.
    """

    sites: Sites
    residual: Array
    skipped: Array
    fisher_scale: Sites


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
    return measured_sweep(graph, sites, step)[:3]


def measured_sweep(graph: Graph, sites: Sites, step: Power) -> SweepResult:
    """`sweep`, with the units of the sites there."""
    return sweep_under(graph, beliefs(graph, sites), sites, step)


def sweep_under(graph: Graph, q: Beliefs, sites: Sites, step: Power) -> SweepResult:
    """The same at beliefs that the rows at hand are a part of."""
    proper = jnp.all(jnp.stack([jnp.isfinite(belief.log_normaliser) for belief in q]))
    updates = _updates(graph, q, sites, step)
    residual, skipped = jnp.where(proper, 0.0, jnp.inf), jnp.zeros(())
    for update in updates:
        residual = jnp.maximum(residual, update.residual)
        skipped = skipped + update.skipped
    fisher_scale = tuple(update.fisher_scale for update in updates)
    return SweepResult(tuple(update.sites for update in updates), residual, skipped, fisher_scale)


def _updates(graph: Graph, q: Beliefs, sites: Sites, step: Power) -> list[SiteUpdate]:
    """Sites of local factors at their match; chains where all other terms want them."""
    first, own, _ = graph.split(sites)
    pairs = zip(graph.factors, first, strict=True)
    matched = [factor.update(q, store, step) for factor, store in pairs]
    expected = functools.partial(expected_terms, graph, q)
    count = len(graph.stored)
    states = cast(Sequence[ChainBelief], q[len(graph.variables) + count :])
    triples = zip(graph.natural, states, own[count:], strict=True)
    return matched + [one.update(belief, store, expected, step) for one, belief, store in triples]


class _SweepState(NamedTuple):
    """Parallel sweeps under way.

    Attributes:
        sites: the sites.
        start: sites with proper beliefs that the last step was made from.
        image: where a full step leads from there.
        step: the damping step.
        residual: the residual of the last sweep.
        change: the sum of the squares of all changes that it would make, in deviations.
        skipped: the sites that it skipped.
        sweeps: sweeps made.
        progress_residual: the residual when sweeps last came a tenth closer.
        progress_at: the sweep of that.
        best: the sites with the least residual so far.
        best_residual: their residual.
        history: what extrapolation remembers; None where steps are fixed.
    """

    sites: Sites
    start: Sites
    image: Sites
    step: Array
    residual: Array
    change: Array
    skipped: Array
    sweeps: Array
    progress_residual: Array
    progress_at: Array
    best: Sites
    best_residual: Array
    history: AndersonHistory | None


class Parallel(AbstractSweeps[_SweepState]):
    """Parallel sweeps until a further one would change no moment by more than the tolerance.

    A sweep that leaves no proper belief is taken back to half its length. They end early where
    they have stopped to come closer. With an adapted step they are extrapolated (Anderson
    acceleration), which does away with directions in which sweeps alone creep.
    """

    def init(self, sites: Sites) -> _SweepState:
        step, longest = self.limits.step, self.limits.longest
        infinite, zero = jnp.full((), jnp.inf), jnp.zeros((), int)
        return _SweepState(
            sites=sites,
            start=sites,
            image=sites,
            step=jnp.asarray(longest if step is None else step, dtype_of(sites)),
            residual=infinite,
            change=infinite,
            skipped=jnp.zeros(()),
            sweeps=zero,
            progress_residual=infinite,
            progress_at=zero,
            best=sites,
            best_residual=infinite,
            history=empty_history(sites, self.settings.anderson) if step is None else None,
        )

    def settled(self, state: _SweepState) -> Array:
        """True where a further sweep would change nothing that matters."""
        residual, limits = state.residual, self.limits
        small = (state.change < limits.enough) & (residual < self.settings.nearby)
        return ((residual < limits.tolerance) | small) & (state.skipped == 0)

    def unfinished(self, state: _SweepState) -> Array:
        stalled = state.sweeps - state.progress_at > self.settings.patience
        stalled = (state.step < self.settings.shortest) | stalled
        return ~self.settled(state) & ~stalled

    def found(self, state: _SweepState) -> tuple[Sites, SweepRecord]:
        converged, last = self.settled(state), self.settings.last
        # sites that met the tolerance before their last step, or those that came nearest
        nearest = choose(converged, state.sites, state.start if last else state.best)
        # there is no nearest where every sweep skipped sites
        own = ~converged & jnp.isfinite(state.best_residual) & (not last)
        residual = jnp.where(own, state.best_residual, state.residual)
        skipped = jnp.where(own, jnp.zeros_like(state.skipped), state.skipped)
        return nearest, SweepRecord(state.sweeps, residual, skipped, converged)

    def step(self, state: _SweepState) -> _SweepState:
        """A step with a proper belief, or half of one back from sites without."""
        result = measured_sweep(self.graph, state.sites, 1.0)
        residual, skipped = result.residual, result.skipped
        finite = jnp.isfinite(residual)
        closer = finite & (residual < state.residual)
        longest = jnp.asarray(self.limits.longest, state.step.dtype)
        longer, shorter = (jnp.minimum(1.25 * state.step, longest), 0.7 * state.step)
        adapt = self.limits.step is None
        adapted = jnp.where(closer, longer, shorter) if adapt else state.step
        length = jnp.where(finite, adapted, 0.5 * state.step)
        # from sites without a proper belief: back, and less far
        start = choose(finite, state.sites, state.start)
        image = choose(finite, result.sites, state.image)
        history = state.history
        if history is not None:
            limit = self.settings.largest_rise * jnp.minimum(state.residual, 1.0)
            extrapolate = finite & (skipped == 0) & (residual < limit)
            new, history = history.next_iterate(
                start, image, result.fisher_scale, length, extrapolate
            )
        else:
            new = jax.tree.map(lambda old, to: old + length * (to - old), start, image)
        progress = finite & (residual < 0.9 * state.progress_residual)
        better = finite & (skipped == 0) & (residual < state.best_residual)
        return _SweepState(
            sites=new,
            start=start,
            image=image,
            step=length,
            residual=jnp.where(finite, residual, jnp.inf),
            change=squared_change(state.sites, result),
            skipped=jnp.where(finite, skipped, jnp.inf),
            sweeps=state.sweeps + 1,
            progress_residual=jnp.where(progress, residual, state.progress_residual),
            progress_at=jnp.where(progress, state.sweeps, state.progress_at),
            best=choose(better, state.sites, state.best),
            best_residual=jnp.where(better, residual, state.best_residual),
            history=history,
        )


def squared_change(sites: Sites, result: SweepResult) -> Array:
    """The sum of the squares of the changes of all numbers of the sites, in deviations."""

    def squared(old: Array, new: Array, unit: Array) -> Array:
        # rows without data do not move, and have no unit
        return jnp.sum((jnp.where(jnp.isfinite(unit), unit, 0.0) * (new - old)) ** 2)

    total = jax.tree.map(squared, sites, result.sites, result.fisher_scale)
    return sum(jax.tree.leaves(total), jnp.zeros(()))


def dtype_of(sites: Sites) -> jnp.dtype:
    """The dtype of the numbers of sites."""
    return jax.tree.leaves(sites)[0].dtype


def choose(first: Array, a: Sites, b: Sites) -> Sites:
    """The sites `a` if `first` is true, the sites `b` otherwise."""
    return jax.tree.map(lambda x, y: jnp.where(first, x, y), a, b)
