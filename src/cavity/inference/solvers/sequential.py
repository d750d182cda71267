"""Schedules in which sites see the updates of others within a sweep: sequential, minibatches."""

from typing import NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites, beliefs, collect_messages, projected
from cavity.inference.factors.base import Stores
from cavity.inference.factors.local import LocalFactor
from cavity.inference.graph.base import AbstractProjectedVariable, AbstractProjectedView
from cavity.inference.graph.marginals import Projection, projected_marginal
from cavity.inference.solvers.driver import AbstractSweeps, SweepRecord
from cavity.numerics.types import Array

Scored = TypeVar("Scored", Array, None)


class _State(NamedTuple):
    """Sweeps under way; names as of parallel sweeps."""

    store: Stores
    step: Array
    residual: Array
    skipped: Array
    sweeps: Array
    progress_residual: Array
    progress_at: Array


class Batches(AbstractSweeps[_State]):
    """Sweeps in which some rows at a time move together, until nothing changes any more.

    The graph has one factor with private scalar sites. With one row at a time beliefs are updated
    by rank-one changes and computed anew after every sweep. Steps are full ones, or shorter ones
    after a sweep that came no closer.

    Attributes:
        batch: rows that move together.
    """

    batch: int = eqx.field(static=True, kw_only=True)

    def init(self, sites: Sites) -> _State:
        dtype, step = self.graph.only_factor().rows.y.dtype, self.limits.step
        first = jnp.asarray(1.0 if step is None else step, dtype)
        infinite, zero = jnp.full((), jnp.inf, dtype), jnp.zeros((), dtype)
        none = jnp.zeros((), int)
        return _State(sites[0], first, infinite, zero, none, infinite, none)

    def unfinished(self, state: _State) -> Array:
        stalled = state.sweeps - state.progress_at > self.settings.patience
        return ~self.met(state) & ~((state.step < self.settings.shortest) | stalled)

    def found(self, state: _State) -> tuple[Sites, SweepRecord]:
        return (state.store,), self.record(state, self.met(state))

    def step(self, state: _State) -> _State:
        visit = _one_by_one if self.batch == 1 else _group_by_group
        result = visit(self.graph, self.graph.only_factor(), state.store, state.step, self.batch)
        residual = result.residual
        first_belief = beliefs(self.graph, (result.store,))[0]
        proper = jnp.isfinite(first_belief.log_normaliser) & jnp.isfinite(residual)
        closer = proper & (residual < state.residual)
        progress = proper & (residual < 0.9 * state.progress_residual)
        shorter = jnp.where(proper, 0.7, 0.5) * state.step
        adapted = jnp.where(closer, jnp.minimum(1.25 * state.step, 1.0), shorter)
        fixed = jnp.where(proper, state.step, 0.5 * state.step)
        return _State(
            store=jax.tree.map(lambda a, b: jnp.where(proper, a, b), result.store, state.store),
            step=adapted if self.limits.step is None else fixed,
            residual=jnp.where(proper, residual, jnp.inf),
            skipped=result.skipped,
            sweeps=state.sweeps + 1,
            progress_residual=jnp.where(progress, residual, state.progress_residual),
            progress_at=jnp.where(progress, state.sweeps, state.progress_at),
        )


class _Sweep(NamedTuple):
    """One sweep: its sites, what they are carried by, and what they changed.

    Attributes:
        carried: the messages (minibatches), or means and covariances (one row at a time).
        store: the sites.
        residual: the largest change of a moment, in standard deviations.
        skipped: sites skipped because their cavity is not proper.
    """

    carried: tuple
    store: Stores
    residual: Array
    skipped: Array


def _group_by_group(
    graph: Graph, factor: LocalFactor, store: Stores, step: Array, batch: int
) -> _Sweep:
    """A sweep in minibatches: beliefs anew after each, from messages."""
    count = factor.rows.y.shape[0]
    steps = -(-count // batch)
    # the last batch is filled with the first rows
    order = (jnp.arange(steps * batch) % count).reshape(steps, batch)

    def batch_step(state: tuple, index: Array) -> tuple[tuple, None]:
        store, messages, largest, skipped = state
        pairs = zip(graph.variables, messages, strict=True)
        q = tuple(variable.belief(m) for variable, m in pairs)
        some_rows, old = factor.at_rows(store, index, 1.0)
        update = some_rows.update(q, old, step)
        change = jax.tree.map(jnp.subtract, update.sites, old)
        changed = list(messages)
        for variable, message in some_rows.messages(graph.variables, change):
            receiver = cast(AbstractProjectedVariable, graph.variables[variable])
            changed[variable] = receiver.replace_rows(changed[variable], index, message)
        store = jax.tree.map(lambda x, y: x.at[index].set(y), store, update.sites)
        largest = jnp.maximum(largest, update.residual)
        return (store, tuple(changed), largest, skipped + update.skipped), None

    zero = jnp.zeros((), factor.rows.y.dtype)
    start = (store, tuple(collect_messages(graph, (store,))), zero, zero)
    (store, messages, residual, skipped), _ = jax.lax.scan(batch_step, start, order)
    return _Sweep(messages, store, residual, skipped)


def visit_once(graph: Graph, sites: Sites) -> tuple[Sites, Array]:
    """One visit of every row in turn, from sites of precision zero: assumed density filtering.

    Returns:
        The sites, and the sum of the log predictive densities of each row before its visit, at
        power 1, in nats.
    """
    factor, (store,) = graph.only_factor(), sites
    densities = jnp.zeros((), factor.rows.y.dtype)
    step = jnp.ones((), factor.rows.y.dtype)
    swept, scored = _rows_in_turn(graph, factor, store, step, densities)
    return (swept.store,), scored


def _one_by_one(
    graph: Graph, factor: LocalFactor, store: Stores, step: Array, batch: int
) -> _Sweep:
    """A sequential sweep, with rank-one updates of means and covariances."""
    return _rows_in_turn(graph, factor, store, step, None)[0]


def _rows_in_turn(
    graph: Graph, factor: LocalFactor, store: Stores, step: Array, scored: Scored
) -> tuple[_Sweep, Scored]:
    """A sequential sweep; and the log means of all rows at their cavities, where asked for.

    Args:
        graph: the model laid out for inference.
        factor: its factor.
        store: the sites.
        step: the damping step.
        scored: what log means are added to; None to leave them out.
    """
    count = factor.rows.y.shape[0]
    views = tuple(cast(AbstractProjectedView, edge.view) for edge in factor.edges)
    projections = tuple(view.project(factor.rows) for view in views)
    loadings = tuple(
        jnp.eye(count, dtype=factor.rows.y.dtype) if p.loadings is None else p.loadings.T
        for p in projections
    )
    given_variable = tuple((p.residual, p.offset) for p in projections)

    def row_step(state: tuple, row: tuple) -> tuple[tuple, Stores]:
        moments, largest, skipped, scores = state
        rows, old, columns, remainders = jax.tree.map(lambda x: x[None], row)
        marginals = []
        for edge, a, (residual, offset) in zip(factor.edges, columns, remainders, strict=True):
            mean, cov = moments[edge.variable]
            var = jnp.einsum("i,pij,j->p", a[0], cov, a[0])
            projection = Projection(None, residual, offset)
            marginals.append(projected_marginal((mean @ a[0])[None], var[None], projection))
        new, residual, skips = factor.update_rows(rows, old, tuple(marginals), step)
        if scores is not None:
            scores = scores + factor.log_means(rows, old, tuple(marginals))
        changes = jax.tree.map(jnp.subtract, new, old)
        updated, proper = list(moments), jnp.ones((), bool)
        presence = rows.site_presence[0]
        for edge, a, marginal, change in zip(
            factor.edges, columns, marginals, changes, strict=True
        ):
            site = (presence * change.shift[0], presence * change.precision[0])
            at = (marginal.mean[0], marginal.var[0])
            updated[edge.variable], ok = _rank_one(updated[edge.variable], a[0], at, site)
            proper = proper & ok
        moments = jax.tree.map(lambda a, b: jnp.where(proper, a, b), tuple(updated), moments)
        store = jax.tree.map(lambda a, b: jnp.where(proper, a, b)[0], new, old)
        skips = jnp.where(proper, skips, 1.0)
        return (moments, jnp.maximum(largest, residual), skipped + skips, scores), store

    zero = jnp.zeros((), factor.rows.y.dtype)
    start = tuple(belief.dense() for belief in projected(beliefs(graph, (store,))))
    along = (factor.rows, store, loadings, given_variable)
    begin = (start, zero, zero, scored)
    (moments, residual, skipped, scores), new = jax.lax.scan(row_step, begin, along)
    return _Sweep(moments, new, residual, skipped), scores


def _rank_one(
    moments: tuple[Array, Array],
    a: Array,
    marginal: tuple[Array, Array],
    site: tuple[Array, Array],
) -> tuple[tuple[Array, Array], Array]:
    """Moments after a site on a projection has changed, and whether they are proper.

    Args:
        moments: means and covariances, per output.
        a: the loadings of the projection.
        marginal: its means and variances.
        site: the changes of shift and precision.
    """
    (mean, cov), (z, var), (shift, precision) = moments, marginal, site
    denominator = 1.0 + precision * var
    proper = denominator > 0.0
    safe = jnp.where(proper, denominator, 1.0)
    across = cov @ a
    # Σ - Σa aᵀΣ Δτ/(1 + Δτ v),  m + Σa (Δν - Δτ z)/(1 + Δτ v)
    mean = mean + ((shift - precision * z) / safe)[:, None] * across
    cov = cov - (precision / safe)[:, None, None] * across[:, :, None] * across[:, None, :]
    return (mean, cov), jnp.all(proper)
