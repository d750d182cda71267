"""Sweeps over rows whose sites reach no other row: each row has a damping step of its own.

So it is with latent inputs, where functions are held. A row whose sweeps oscillate, as between
two places in the latent space, does not slow down the others.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.solvers.parallel import SweepRecord, measured_sweep
from cavity.numerics.types import Array, Float

# No site takes away more than this share of the standard normal prior's precision.
LEAST_PRECISION = -0.5
# How steps change after a sweep that came closer, and after one that did not.
LONGER, SHORTER, SHORTEST = 1.25, 0.6, 1e-3


class _State(NamedTuple):
    """Sweeps under way.

    Attributes:
        sites: the sites.
        step: the damping step of every row.
        change: the largest change that a full step makes of any number of a row's sites, in
            deviations.
        skipped: sites skipped in the last sweep.
        sweeps: sweeps made.
    """

    sites: Sites
    step: Float[Array, " N"]
    change: Float[Array, " N"]
    skipped: Array
    sweeps: Array


def rowwise(
    graph: Graph, sites: Sites, *, tolerance: float | Array, max_sweeps: int | Array
) -> tuple[Sites, SweepRecord]:
    """Sweeps until a further one would change no number by more than `tolerance` deviations.

    Args:
        graph: the model laid out for inference.
        sites: where to start.
        tolerance: on the changes.
        max_sweeps: sweeps at the most.
    """
    rows = next(store for store in _private(sites)).shift.shape[0]
    dtype = next(store for store in _private(sites)).shift.dtype

    def unfinished(state: _State) -> Array:
        settled = (jnp.max(state.change) < tolerance) & (state.skipped == 0)
        return (state.sweeps < max_sweeps) & ~settled

    def once(state: _State) -> _State:
        result = measured_sweep(graph, state.sites, 1.0)
        image = _map_private(_bounded, result.sites)
        change = _changes(state.sites, image, result.fisher_scale)
        closer = change < state.change
        step = jnp.where(closer, LONGER * state.step, SHORTER * state.step)
        step = jnp.clip(step, SHORTEST, 1.0)

        def moved(old: Array, new: Array) -> Array:
            to = old + step.reshape(-1, *[1] * (old.ndim - 1)) * (new - old)
            return jnp.where(jnp.isfinite(to), to, old)

        sites = _map_private(lambda a, b: jax.tree.map(moved, a, b), state.sites, image)
        skipped = jnp.where(jnp.isfinite(result.residual), result.skipped, jnp.inf)
        return _State(sites, step, change, skipped, state.sweeps + 1)

    infinite = jnp.full(rows, jnp.inf, dtype)
    first = _State(sites, jnp.ones(rows, dtype), infinite, jnp.zeros(()), jnp.zeros((), int))
    end = jax.lax.while_loop(unfinished, once, first)
    residual = jnp.max(end.change)
    converged = (residual < tolerance) & (end.skipped == 0)
    return end.sites, SweepRecord(end.sweeps, residual, end.skipped, converged)


def _bounded(site: AbstractSites) -> AbstractSites:
    return type(site)(site.shift, jnp.maximum(site.precision, LEAST_PRECISION))


def _changes(sites: Sites, image: Sites, units: Sites) -> Float[Array, " N"]:
    """The largest change of any number of a row's sites, in deviations."""
    largest = None
    for old, new, unit in zip(_private(sites), _private(image), _private(units), strict=True):
        for a, b, c in zip(*(jax.tree.leaves(x) for x in (old, new, unit)), strict=True):
            size = jnp.abs(jnp.where(jnp.isfinite(c), c, 0.0) * (b - a))
            row = jnp.max(size.reshape(size.shape[0], -1), axis=1)
            largest = row if largest is None else jnp.maximum(largest, row)
    assert largest is not None
    return largest


def _is_private(x: object) -> bool:
    return isinstance(x, AbstractSites)


def _private(sites: Sites) -> list[AbstractSites]:
    stores = jax.tree.leaves(sites, is_leaf=_is_private)
    return [store for store in stores if _is_private(store)]


def _map_private(function: Callable[..., AbstractSites], sites: Sites, *others: Sites) -> Sites:
    """Stores of private sites through a function; all else as it is."""

    def mapped_store(store: object, *more: object) -> object:
        return function(store, *more) if _is_private(store) else store

    return jax.tree.map(mapped_store, sites, *others, is_leaf=_is_private)
