r"""The double loop: fixed points of Power EP as minima, so that a search for them cannot cycle.

With cavities formed from marginals that are *held*, in place of the beliefs' own, the energy is
concave in the sites. Its maximum over the sites, as a function of what is held, falls to a fixed
point of Power EP (the expectation-consistent form):

$$\min_{\text{held}}\; \max_{t}\; -\log Z(t; \text{held}).$$

The inner problem is solved here, by Newton's method with conjugate gradients; at its solution
the slope in what is held needs no derivative of the sites. The outer problem is smooth and
unconstrained in means and log variances, and any descent method will do.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve

from cavity.inference.energy import (
    FixedMarginals,
    Graph,
    Sites,
    beliefs,
    energy,
    marginals,
    projected,
    respond,
)
from cavity.inference.graph.sites import AbstractSites, ScalarSites
from cavity.numerics.linalg import cholesky
from cavity.numerics.types import Array, Bool, Float, Int, Scalar

# Newton steps, halvings of one, and conjugate-gradient steps at the most.
NEWTON, HALVINGS, CONJUGATE = 50, 40, 200
# Coordinates up to which the curvature is a matrix.
DENSE = 3000


class Inner(NamedTuple):
    """The inner maximum.

    Attributes:
        sites: where it is.
        value: the energy there; NaN where there is no proper start.
        slope: its derivatives in the held means and log variances, as one vector.
        gain: what a further Newton step would gain, in nats.
        steps: Newton steps made.
    """

    sites: Sites
    value: Scalar
    slope: Float[Array, " H"]
    gain: Scalar
    steps: Int[Array, ""]


def coordinates(
    held: FixedMarginals,
) -> tuple[Float[Array, " H"], Callable[[Array], FixedMarginals]]:
    """Held marginals as a vector of means and log variances, and the way back."""
    logs = jax.tree.map(lambda mv: (mv[0], jnp.log(mv[1])), held, is_leaf=_is_pair)
    flat, back = ravel_pytree(logs)

    def restore(x: Array) -> FixedMarginals:
        return jax.tree.map(lambda ml: (ml[0], jnp.exp(ml[1])), back(x), is_leaf=_is_pair)

    return flat, restore


def _is_pair(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 2 and all(isinstance(a, jax.Array) for a in x)


def inner_maximum(graph: Graph, sites: Sites, held: FixedMarginals, tolerance: float) -> Inner:
    """Maximises the energy over the sites, at held marginals.

    Args:
        graph: the model laid out for inference, with scalar sites.
        sites: where to start; every cavity must be proper there.
        held: the marginals that cavities are formed from.
        tolerance: ends when a Newton step would gain less than this, in nats.
    """
    _, restore = ravel_pytree(sites)
    units = site_units(sites, held)
    place, restore_held = coordinates(held)

    def at(x: Array) -> Sites:
        return jax.tree.map(jnp.add, sites, lifted(units, restore(x)))

    def value(x: Array) -> Scalar:
        return energy(graph, at(x), held)

    def proceed(state: tuple) -> Bool[Array, ""]:
        _, best, gain, steps, stuck = state
        return (steps < NEWTON) & (gain > tolerance) & ~stuck & jnp.isfinite(best)

    def step(state: tuple) -> tuple:
        x, best, _, steps, _ = state
        slope, product = _newton(graph, at(x), held)
        flat = ravel_pytree(_lowered(units, slope))[0]

        def curve(d: Array) -> Array:
            return ravel_pytree(_lowered(units, product(lifted(units, restore(d)))))[0]

        direction = _solved(curve, flat)
        gain = flat @ direction

        def rises(size: Scalar) -> Bool[Array, ""]:
            # a comparison with NaN is false
            return value(x + size * direction) >= best + 1e-4 * size * gain - 1e-13 * abs(best)

        def shorter(trial: tuple) -> Bool[Array, ""]:
            size, count = trial
            return (count < HALVINGS) & ~rises(size)

        size, count = jax.lax.while_loop(
            shorter, lambda trial: (0.5 * trial[0], trial[1] + 1), (jnp.ones_like(gain), 0)
        )
        stuck = count >= HALVINGS
        new = jnp.where(stuck, x, x + size * direction)
        return new, value(new), gain, steps + 1, stuck

    zero = jnp.zeros_like(ravel_pytree(sites)[0])
    state = (zero, value(zero), jnp.full((), jnp.inf, zero.dtype), 0, jnp.zeros((), bool))
    x, best, gain, steps, _ = jax.lax.while_loop(proceed, step, state)
    found = at(x)
    outer = jax.grad(lambda p: energy(graph, found, restore_held(p)))(place)
    return Inner(found, best, outer, gain, jnp.asarray(steps))


def outer_curvature(
    graph: Graph, sites: Sites, held: FixedMarginals
) -> tuple[Float[Array, "H H"], Float[Array, "S H"]]:
    """The Hessian of the inner maximum in the held means and log variances, for one edge.

    What is held meets the sites row by row, so the second derivatives are diagonal but for those
    in the sites themselves, over which the maximum is taken.

    Returns:
        The Hessian, and how the sites at the maximum move with what is held.
    """
    place, restore = coordinates(held)
    size = place.size // 2

    def slope(sites: Sites, place: Array) -> Array:
        return jax.grad(lambda p: energy(graph, sites, restore(p)))(place)

    def blocks(by_first: Array, by_second: Array) -> Array:
        parts = [[by_first[:size], by_second[:size]], [by_first[size:], by_second[size:]]]
        return jnp.block([[jnp.diag(x) for x in row] for row in parts])

    first = jnp.arange(2 * size) < size
    tangents = (jnp.where(first, 1.0, 0.0), jnp.where(first, 0.0, 1.0))
    own = [jax.jvp(lambda p: slope(sites, p), (place,), (t,))[1] for t in tangents]
    ones = jax.tree.map(jnp.ones_like, sites)
    mixed = [
        jax.jvp(lambda s: slope(s, place), (sites,), (_only(ones, shift=shift),))[1]
        for shift in (True, False)
    ]
    back = ravel_pytree(sites)[1]
    _, product = _newton(graph, sites, held)
    C = jax.vmap(lambda d: ravel_pytree(product(back(d)))[0])(jnp.eye(2 * size))
    C = 0.5 * (C + C.T)
    # absent rows have no curvature
    C = C + jnp.diag(jnp.where(jnp.diagonal(C) > 0.0, 0.0, 1.0))
    scale = 1.0 / jnp.sqrt(jnp.diagonal(C))
    B = blocks(*mixed) * scale[None, :]
    L = cholesky(C * scale[:, None] * scale[None, :] + 1e-14 * jnp.eye(2 * size))
    moves = cho_solve((L, True), B.T)
    return blocks(*own) + B @ moves, scale[:, None] * moves


def _newton(
    graph: Graph, sites: Sites, held: FixedMarginals
) -> tuple[Sites, Callable[[Sites], Sites]]:
    """The slope of the energy in the sites, and minus its curvature as a linear map.

    The slope is the mismatch of moments, of the tilted distributions and of the beliefs; the
    curvature is the sum of their covariances (Jylanki 2013, S36 and identity 20).
    """
    q = beliefs(graph, sites)
    now = marginals(graph, q)
    responses = tuple(belief.response() for belief in projected(q))
    tilted = functools.partial(_tilted_moments, graph, held)
    # rows are independent: one direction each for all shifts and for all precisions
    ones = jax.tree.map(jnp.ones_like, sites)
    matched, by_shift = jax.jvp(tilted, (sites,), (_only(ones, shift=True),))
    _, by_precision = jax.jvp(tilted, (sites,), (_only(ones, shift=False),))
    slope = _combined(graph, lambda t, s: t - s, matched, _raw(now))

    def product(change: Sites) -> Sites:
        moved = _raw_change(now, respond(graph, responses, now, change))
        tilting = _pairs(
            lambda h, t, d: (h[0] * d[0] + t[0] * d[1], h[1] * d[0] + t[1] * d[1]),
            by_shift,
            by_precision,
            _as_pairs(change),
        )
        return _combined(graph, lambda t, s: s - t, tilting, moved)

    return slope, product


def _only(ones: Sites, *, shift: bool) -> Sites:
    """Changes of all shifts, or of all precisions, by one."""
    a, b = (1.0, 0.0) if shift else (0.0, 1.0)
    return jax.tree.map(
        lambda site: type(site)(a * site.shift, b * site.precision), ones, is_leaf=is_site
    )


def is_site(x: Any) -> bool:
    """Whether a tree ends here, at the sites of an edge."""
    return isinstance(x, AbstractSites)


def _as_pairs(sites: Sites) -> Any:
    return jax.tree.map(lambda site: (site.shift, site.precision), sites, is_leaf=is_site)


def _pairs(fn: Callable[..., Any], *trees: Any) -> Any:
    """Maps a function over (mean, variance) pairs of marginals."""
    return jax.tree.map(fn, *trees, is_leaf=_is_pair)


def _raw(held: Any) -> Any:
    """Means, and minus half the mean squares: the moments that shift and precision multiply."""
    return _pairs(lambda mv: (mv[0], -0.5 * (mv[1] + mv[0] ** 2)), held)


def _raw_change(held: Any, change: Any) -> Any:
    return _pairs(lambda mv, d: (d[0], -0.5 * d[1] - mv[0] * d[0]), held, change)


def _tilted_moments(graph: Graph, held: FixedMarginals, sites: Sites) -> FixedMarginals:
    """Raw moments of the tilted distributions at cavities from fixed marginals."""
    triples = zip(graph.row_factors, held, sites, strict=True)
    return tuple(_raw(factor.tilted_moments(moments, store)) for factor, moments, store in triples)


def _combined(
    graph: Graph, fn: Callable[..., Array], tilted: FixedMarginals, own: FixedMarginals
) -> Sites:
    """A combination of two sets of moments, as changes of sites; none for absent rows."""

    def one(x: tuple[Array, Array], z: tuple[Array, Array], present: Array) -> ScalarSites:
        return ScalarSites(present * fn(x[0], z[0]), present * fn(x[1], z[1]))

    triples = zip(tilted, own, (f.site_presence for f in graph.row_factors), strict=True)
    return tuple(tuple(one(*parts) for parts in zip(*edges, strict=True)) for edges in triples)


def site_units(sites: Sites, held: FixedMarginals) -> Any:
    """Centre, and units of shift and precision, of each site's coordinates.

    About the held mean m the moments of f are nearly uncorrelated: coordinates are the
    precision and the shift less m times it.
    """

    def one(site: Any, pair: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        mean, var = (jnp.broadcast_to(x, site.shift.shape) for x in pair)
        return mean, 1.0 / jnp.sqrt(var), jnp.sqrt(2.0) / var

    return tuple(
        tuple(one(site, pair) for site, pair in zip(store, moments, strict=True))
        for store, moments in zip(sites, held, strict=True)
    )


def lifted(units: Any, x: Sites) -> Sites:
    """Changes of sites from changes of their coordinates."""

    def one(site: Any, unit: tuple[Array, Array, Array]) -> Any:
        mean, shift, precision = unit
        tau = precision * site.precision
        return type(site)(shift * site.shift + mean * tau, tau)

    return jax.tree.map(one, x, units, is_leaf=is_site)


def _lowered(units: Any, slope: Sites) -> Sites:
    """Slopes in the coordinates from slopes in sites: the transpose of `lifted`."""

    def one(site: Any, unit: tuple[Array, Array, Array]) -> Any:
        mean, shift, precision = unit
        return type(site)(shift * site.shift, precision * (site.precision + mean * site.shift))

    return jax.tree.map(one, slope, units, is_leaf=is_site)


def _solved(product: Callable[[Array], Array], g: Array) -> Array:
    """Solves a positive definite system: directly where it is small."""
    if g.size > DENSE:
        return _conjugate(product, g)
    H = jax.vmap(product)(jnp.eye(g.size, dtype=g.dtype))
    H = 0.5 * (H + H.T)
    # absent rows have no curvature
    H = H + jnp.diag(jnp.where(jnp.diagonal(H) > 0.0, 1e-13 * jnp.diagonal(H), 1.0))
    L = cholesky(H)
    direction = cho_solve((L, True), g)
    return jnp.where(jnp.all(jnp.isfinite(direction)), direction, g)


def _conjugate(product: Callable[[Array], Array], g: Array) -> Array:
    """Solves a positive definite system to a share of its right-hand side, or stops early."""
    size = jnp.linalg.norm(g)
    target = jnp.minimum(0.1, size) ** 0.5 * 0.1 * size + 1e-300

    def proceed(state: tuple) -> Bool[Array, ""]:
        _, r, _, count, good = state
        return (count < CONJUGATE) & (jnp.linalg.norm(r) > target) & good

    def step(state: tuple) -> tuple:
        x, r, p, count, _ = state
        Ap = product(p)
        curvature = p @ Ap
        good = curvature > 0.0
        a = jnp.where(good, (r @ r) / jnp.where(good, curvature, 1.0), 0.0)
        new = r - a * Ap
        b = (new @ new) / (r @ r)
        return x + a * p, new, new + b * p, count + 1, good

    state = (jnp.zeros_like(g), g, g, 0, jnp.ones((), bool))
    x = jax.lax.while_loop(proceed, step, state)[0]
    return jnp.where(jnp.any(x != 0.0), x, g)
