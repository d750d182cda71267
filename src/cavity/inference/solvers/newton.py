r"""Newton's method for the fixed point of the sweeps, where sweeps alone do not reach it.

A sweep maps sites to the sites that they should be. Rows only meet through the beliefs, whose
response to sites is known, so the derivative of the map is a few numbers per row and one linear
response. Newton's method converges from near, whether or not sweeps would; following the fixed
point from a smaller power, at which they do, brings it near. So does a path of models, of which
a `Bearing` says where it leads.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import gmres

from cavity.inference.energy import (
    FixedMarginals,
    Graph,
    Sites,
    beliefs,
    marginals,
    projected,
    respond,
)
from cavity.inference.solvers.double_loop_inner import DENSE, is_site, lifted, site_units
from cavity.numerics.types import Array, Float, Int, Scalar

# Halvings of a step, and the least share of the gap that a step must close.
HALVINGS, CLOSED = 30, 1e-3


class Solution(NamedTuple):
    """Where Newton's method ended.

    Attributes:
        sites: the sites.
        gap: their distance from the sites that they should be, in deviations; infinite where a
            belief or cavity is not proper.
        steps: steps made.
    """

    sites: Sites
    gap: Scalar
    steps: Int[Array, ""]


class _Place(NamedTuple):
    """Sites, and all that a step from them needs."""

    sites: Sites
    now: FixedMarginals
    units: Any
    miss: Sites  # the sites that they should be, less them
    gap: Scalar


def solve(graph: Graph, sites: Sites, *, tolerance: float, max_steps: int) -> Solution:
    """Sites at a fixed point of the sweeps, by Newton's method from near it.

    Args:
        graph: the model laid out for inference, with private scalar sites.
        sites: where to start.
        tolerance: on the gap, in deviations.
        max_steps: steps at the most.
    """

    def proceed(state: tuple) -> Array:
        _, gap, steps, stuck = state
        return (gap > tolerance) & (steps < max_steps) & ~stuck & jnp.isfinite(gap)

    def step(state: tuple) -> tuple:
        sites, gap, steps, _ = state
        direction = _direction(graph, _at(graph, sites))

        def moved(size: Scalar) -> Sites:
            return jax.tree.map(lambda x, d: x + size * d, sites, direction)

        def worse(trial: tuple) -> Array:
            size, count, found = trial
            return (count < HALVINGS) & ~(found < (1.0 - CLOSED * size) * gap)

        def shorter(trial: tuple) -> tuple:
            size, count, _ = trial
            return 0.5 * size, count + 1, _at(graph, moved(0.5 * size)).gap

        one = jnp.ones_like(gap)
        start = (one, jnp.zeros((), int), _at(graph, moved(one)).gap)
        size, count, found = jax.lax.while_loop(worse, shorter, start)
        stuck = count >= HALVINGS
        kept = jax.tree.map(lambda a, b: jnp.where(stuck, a, b), sites, moved(size))
        return kept, jnp.where(stuck, gap, found), steps + 1, stuck

    start = (sites, _at(graph, sites).gap, jnp.zeros((), int), jnp.zeros((), bool))
    found, gap, steps, _ = jax.lax.while_loop(proceed, step, start)
    return Solution(found, gap, steps)


def _at(graph: Graph, sites: Sites) -> _Place:
    q = beliefs(graph, sites)
    now = marginals(graph, q)
    units = site_units(sites, now)
    target, proper = _matched(graph, sites, now)
    miss = jax.tree.map(jnp.subtract, target, sites)
    size = jnp.max(jnp.abs(ravel_pytree(_measured(units, miss))[0]))
    finite = jnp.all(jnp.stack([jnp.isfinite(belief.log_normaliser) for belief in q]))
    return _Place(sites, now, units, miss, jnp.where(proper & finite, size, jnp.inf))


def _matched(graph: Graph, sites: Sites, fixed: FixedMarginals) -> tuple[Sites, Array]:
    """The sites that match the tilted distributions, and whether all of them are proper."""
    triples = zip(graph.row_factors, fixed, sites, strict=True)
    updates = [factor.update_at(moments, store, 1.0) for factor, moments, store in triples]
    skipped = sum(update.skipped for update in updates)
    return tuple(update.sites for update in updates), jnp.asarray(skipped == 0)


class Bearing(NamedTuple):
    """Where sites are on a path of fixed points, and where they should go.

    Attributes:
        gap: as of a solution.
        correction: Newton's step to the path.
        drift: how the fixed point moves with the place on the path.
        units: of the changes, in deviations.
    """

    gap: Scalar
    correction: Sites
    drift: Sites
    units: Any


def bearing(graph_at: Callable[[Scalar], Graph], share: Scalar, sites: Sites) -> Bearing:
    """What a step along a path needs.

    Args:
        graph_at: the model laid out for inference, for a place on the path.
        share: the place.
        sites: the sites, near the fixed point there.
    """
    graph = graph_at(share)
    place = _at(graph, sites)
    one = (jnp.ones_like(share),)
    moved = jax.jvp(lambda s: _at(graph_at(s), sites).miss, (share,), one)[1]
    correction, drift = _directions(graph, place, (place.miss, moved))
    return Bearing(place.gap, correction, drift, place.units)


def inner(units: Any, a: Sites, b: Sites) -> Scalar:
    """The inner product of two changes of sites, in deviations."""
    return ravel_pytree(_measured(units, a))[0] @ ravel_pytree(_measured(units, b))[0]


def _direction(graph: Graph, place: _Place) -> Sites:
    """Newton's step in the sites."""
    return _directions(graph, place, (place.miss,))[0]


def _directions(graph: Graph, place: _Place, misses: tuple[Sites, ...]) -> tuple[Sites, ...]:
    """The changes of sites that make up for changes of what the sites miss."""
    responses = tuple(b.response() for b in projected(beliefs(graph, place.sites)))
    zero = jax.tree.map(jnp.zeros_like, (place.sites, place.now))

    def along(sites: Sites, held: FixedMarginals) -> Sites:
        tangents = (sites, held)
        fn = lambda s, h: _matched(graph, s, h)[0]  # noqa: E731
        return jax.jvp(fn, (place.sites, place.now), tangents)[1]

    # rows are independent: one direction each for all shifts, precisions, means and variances
    by_shift = along(_ones(place.sites, 0), zero[1])
    by_precision = along(_ones(place.sites, 1), zero[1])
    by_mean = along(zero[0], _held_ones(place.now, 0))
    by_var = along(zero[0], _held_ones(place.now, 1))

    def product(change: Sites) -> Sites:
        moved = respond(graph, responses, place.now, change)
        parts = (by_shift, by_precision, by_mean, by_var)
        return _combined(graph, parts, change, moved)

    back = ravel_pytree(place.sites)[1]

    def flat(x: Array) -> Array:
        changed = product(lifted(place.units, back(x)))
        return ravel_pytree(_measured(place.units, changed))[0]

    wanted = [ravel_pytree(_measured(place.units, miss))[0] for miss in misses]
    return tuple(lifted(place.units, back(-x)) for x in _solved(flat, jnp.stack(wanted)))


def _solved(product: Any, b: Float[Array, "C S"]) -> Float[Array, "C S"]:
    if b.shape[1] > DENSE:
        return jnp.stack([gmres(product, x, tol=1e-6, restart=50, maxiter=10)[0] for x in b])
    J = jax.vmap(product)(jnp.eye(b.shape[1], dtype=b.dtype)).T
    return jnp.linalg.solve(J, b.T).T


def _ones(sites: Sites, which: int) -> Sites:
    """Changes of all shifts (0), or of all precisions (1), by one."""

    def one(site: Any) -> Any:
        ones, zeros = jnp.ones_like(site.shift), jnp.zeros_like(site.shift)
        return type(site)(*((ones, zeros) if which == 0 else (zeros, ones)))

    return jax.tree.map(one, sites, is_leaf=is_site)


def _held_ones(held: FixedMarginals, which: int) -> FixedMarginals:
    """Changes of all means (0), or of all variances (1), by one."""

    def one(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        ones, zeros = jnp.ones_like(pair[which]), jnp.zeros_like(pair[1 - which])
        return (ones, zeros) if which == 0 else (zeros, ones)

    return tuple(tuple(one(pair) for pair in f) for f in held)


def _combined(
    graph: Graph, parts: tuple[Sites, ...], change: Sites, moved: FixedMarginals
) -> Sites:
    """The change of the matching sites less the change of the sites; absent rows stay at zero."""
    out: list = []
    for i, factor in enumerate(graph.row_factors):
        stores = []
        for e, (site, present) in enumerate(zip(change[i], factor.site_presence, strict=True)):
            mean, var = moved[i][e]
            shifts = (site.shift, site.precision, mean, var)
            by = [part[i][e] for part in parts]
            shift = sum(b.shift * d for b, d in zip(by, shifts, strict=True))
            precision = sum(b.precision * d for b, d in zip(by, shifts, strict=True))
            both = ((shift, site.shift), (precision, site.precision))
            stores.append(type(site)(*(jnp.where(present > 0.0, a - b, -b) for a, b in both)))
        out.append(tuple(stores))
    return tuple(out)


def _measured(units: Any, change: Sites) -> Sites:
    """Changes of sites in the coordinates that `lifted` takes."""

    def one(site: Any, unit: tuple[Array, Array, Array]) -> Any:
        mean, shift, precision = unit
        moved = (site.shift - mean * site.precision) / shift
        return type(site)(moved, site.precision / precision)

    return jax.tree.map(one, change, units, is_leaf=is_site)
