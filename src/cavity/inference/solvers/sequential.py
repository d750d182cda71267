"""Schedules in which sites see the updates of others within a sweep: sequential, minibatches."""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites, beliefs, collect_messages, projected
from cavity.inference.factors.base import Stores
from cavity.inference.factors.site import SiteFactor
from cavity.inference.graph.base import (
    AbstractProjectedVariable,
    AbstractProjectedView,
    Projection,
    projected_marginal,
)
from cavity.inference.solvers.parallel import PATIENCE, SHORTEST, SweepRecord
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array


def in_batches(
    graph: Graph,
    sites: Sites,
    *,
    batch: int,
    step: Power | None,
    tolerance: float | Array,
    max_sweeps: int | Array,
) -> tuple[Sites, SweepRecord]:
    """Sweeps in which some rows at a time move together, until nothing changes any more.

    With one row at a time beliefs are updated by rank-one changes and computed anew after every
    sweep.

    Args:
        graph: the model laid out for inference, of one factor with private scalar sites.
        sites: where to start.
        batch: rows that move together.
        step: the damping step; None for full steps, shorter ones after a sweep that came no
            closer.
        tolerance: on the residual, in standard deviations.
        max_sweeps: sweeps at the most.
    """
    factor, (start,) = graph.only_factor(), sites
    visit = _one_by_one if batch == 1 else _group_by_group

    def unfinished(state: _State) -> Array:
        good = (state.residual < tolerance) & (state.skipped == 0)
        lost = (state.step < SHORTEST) | (state.count - state.nearest_at > PATIENCE)
        return (state.count < max_sweeps) & ~good & ~lost

    def once(state: _State) -> _State:
        _, new, residual, skipped = visit(graph, factor, state.store, state.step, batch)
        proper = jnp.isfinite(beliefs(graph, (new,))[0].log_normaliser) & jnp.isfinite(residual)
        closer = proper & (residual < state.residual)
        nearer = proper & (residual < 0.9 * state.nearest)
        shorter = jnp.where(proper, 0.7, 0.5) * state.step
        length = jnp.where(closer, jnp.minimum(1.25 * state.step, 1.0), shorter)
        kept = jax.tree.map(lambda a, b: jnp.where(proper, a, b), new, state.store)
        return _State(
            kept,
            length if step is None else jnp.where(proper, state.step, 0.5 * state.step),
            jnp.where(proper, residual, jnp.inf),
            skipped,
            state.count + 1,
            jnp.where(nearer, residual, state.nearest),
            jnp.where(nearer, state.count, state.nearest_at),
        )

    dtype = factor.rows.y.dtype
    first = jnp.asarray(1.0 if step is None else step, dtype)
    infinite, zero = jnp.full((), jnp.inf, dtype), jnp.zeros((), dtype)
    none = jnp.zeros((), int)
    begin = _State(start, first, infinite, zero, none, infinite, none)
    end = jax.lax.while_loop(unfinished, once, begin)
    good = (end.residual < tolerance) & (end.skipped == 0)
    return (end.store,), SweepRecord(end.count, end.residual, end.skipped, good)


class _State(NamedTuple):
    store: Stores
    step: Array
    residual: Array
    skipped: Array
    count: Array
    nearest: Array
    nearest_at: Array


def _group_by_group(
    graph: Graph, factor: SiteFactor, store: Stores, step: Array, batch: int
) -> tuple[tuple, Stores, Array, Array]:
    """A sweep in minibatches: beliefs anew after each, from messages, which come first."""
    count = factor.rows.y.shape[0]
    steps = -(-count // batch)
    # the last batch is filled with the first rows
    order = (jnp.arange(steps * batch) % count).reshape(steps, batch)

    def one(state: tuple, index: Array) -> tuple[tuple, None]:
        store, messages, worst, skipped = state
        pairs = zip(graph.variables, messages, strict=True)
        q = tuple(variable.belief(m) for variable, m in pairs)
        part, old = factor.at_rows(store, index, 1.0)
        update = part.update(q, old, step)
        new, residual, skips = update.sites, update.residual, update.skipped
        change = jax.tree.map(jnp.subtract, new, old)
        moved = list(messages)
        for variable, message in part.messages(graph.variables, change):
            receiver = cast(AbstractProjectedVariable, graph.variables[variable])
            moved[variable] = receiver.replace_rows(moved[variable], index, message)
        store = jax.tree.map(lambda x, y: x.at[index].set(y), store, new)
        return (store, tuple(moved), jnp.maximum(worst, residual), skipped + skips), None

    zero = jnp.zeros((), factor.rows.y.dtype)
    start = (store, tuple(collect_messages(graph, (store,))), zero, zero)
    (store, messages, worst, skipped), _ = jax.lax.scan(one, start, order)
    return messages, store, worst, skipped


def _one_by_one(
    graph: Graph, factor: SiteFactor, store: Stores, step: Array, batch: int
) -> tuple[tuple, Stores, Array, Array]:
    """A sequential sweep, with rank-one updates of means and covariances, which come first."""
    count = factor.rows.y.shape[0]
    views = tuple(cast(AbstractProjectedView, edge.view) for edge in factor.edges)
    projections = tuple(view.project(factor.rows) for view in views)
    loadings = tuple(
        jnp.eye(count, dtype=factor.rows.y.dtype) if p.loadings is None else p.loadings.T
        for p in projections
    )
    rest = tuple((p.residual, p.offset) for p in projections)

    def one(state: tuple, row: tuple) -> tuple[tuple, Stores]:
        moments, worst, skipped = state
        rows, old, columns, parts = jax.tree.map(lambda x: x[None], row)
        views = []
        for edge, a, (residual, offset) in zip(factor.edges, columns, parts, strict=True):
            mean, cov = moments[edge.variable]
            var = jnp.einsum("i,pij,j->p", a[0], cov, a[0])
            projection = Projection(None, residual, offset)
            views.append(projected_marginal((mean @ a[0])[None], var[None], projection))
        new, residual, skips = factor.update_rows(rows, old, tuple(views), step)
        change = jax.tree.map(jnp.subtract, new, old)
        changed, proper = list(moments), jnp.ones((), bool)
        for edge, a, view, move in zip(factor.edges, columns, views, change, strict=True):
            present = rows.site_presence[0]
            lengths = (present * move.shift[0], present * move.precision[0])
            found, ok = _rank_one(
                changed[edge.variable], a[0], (view.mean[0], view.var[0]), lengths
            )
            changed[edge.variable], proper = found, proper & ok
        keep = jax.tree.map(lambda a, b: jnp.where(proper, a, b), tuple(changed), moments)
        store = jax.tree.map(lambda a, b: jnp.where(proper, a, b)[0], new, old)
        skips = jnp.where(proper, skips, 1.0)
        return (keep, jnp.maximum(worst, residual), skipped + skips), store

    zero = jnp.zeros((), factor.rows.y.dtype)
    moments = tuple(belief.dense() for belief in projected(beliefs(graph, (store,))))
    along = (factor.rows, store, loadings, rest)
    (carried, worst, skipped), new = jax.lax.scan(one, (moments, zero, zero), along)
    return carried, new, worst, skipped


def _rank_one(
    moments: tuple[Array, Array],
    a: Array,
    seen_now: tuple[Array, Array],
    change: tuple[Array, Array],
) -> tuple[tuple[Array, Array], Array]:
    """Moments after a site on a projection has changed; not proper where none are left."""
    (mean, cov), (z, var), (shift, precision) = moments, seen_now, change
    left = 1.0 + precision * var
    ok = left > 0.0
    safe = jnp.where(ok, left, 1.0)
    across = cov @ a
    # Σ - Σa aᵀΣ Δτ/(1 + Δτ v),  m + Σa (Δν - Δτ z)/(1 + Δτ v)
    mean = mean + ((shift - precision * z) / safe)[:, None] * across
    cov = cov - (precision / safe)[:, None, None] * across[:, :, None] * across[:, None, :]
    return (mean, cov), jnp.all(ok)
