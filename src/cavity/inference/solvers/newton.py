r"""Newton's method for the fixed point of the sweeps, where sweeps alone do not reach it.

A sweep maps sites to the sites that match the tilted distributions, and a fixed point has an
*error*, matching sites less sites, of zero. Rows only meet through the beliefs, whose linear
response to sites is known, so the Jacobian of the error is a few numbers per row and one linear
response. Newton's method converges from near, whether or not sweeps would.
"""

from collections.abc import Callable
from typing import NamedTuple

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
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.solvers.settings import NewtonSettings
from cavity.inference.solvers.site_coordinates import (
    GraphUnits,
    from_coordinates,
    is_site,
    site_units,
    to_coordinates,
)
from cavity.numerics.types import Array, Float, Int, Scalar


class Solution(NamedTuple):
    """Result of Newton's method.

    Attributes:
        sites: the sites.
        gap: the largest error of a site, in deviations; infinite where a belief or cavity is not
            proper.
        steps: steps made.
    """

    sites: Sites
    gap: Scalar
    steps: Int[Array, ""]


class Evaluation(NamedTuple):
    """The error of sites, and what its Jacobian is made of.

    Attributes:
        sites: the sites.
        moments: the marginals of the beliefs.
        units: the units of the sites' coordinates.
        error: the sites that match the tilted distributions, less the sites.
        gap: the largest error, in deviations; infinite where a belief or cavity is not proper.
    """

    sites: Sites
    moments: FixedMarginals
    units: GraphUnits
    error: Sites
    gap: Scalar


def solve(
    graph: Graph,
    sites: Sites,
    *,
    tolerance: float | Array,
    settings: NewtonSettings = NewtonSettings(),
) -> Solution:
    """Sites at a fixed point of the sweeps, by Newton's method with a line search.

    Args:
        graph: the model laid out for inference, with private scalar sites.
        sites: where to start.
        tolerance: on the gap, in deviations.
        settings: steps and their line search.
    """

    def unfinished(state: _State) -> Array:
        proceed = (state.steps < settings.max_steps) & ~state.stuck
        return (state.gap > tolerance) & proceed & jnp.isfinite(state.gap)

    def step(state: _State) -> _State:
        at = evaluate(graph, state.sites)
        (direction,) = linearised_steps(graph, at, (at.error,), settings)

        def moved(length: Scalar) -> Sites:
            return jax.tree.map(lambda x, d: x + length * d, state.sites, direction)

        def too_long(trial: _Trial) -> Array:
            closer = trial.gap < (1.0 - settings.least_gain * trial.length) * state.gap
            return (trial.halvings < settings.max_halvings) & ~closer

        def halved(trial: _Trial) -> _Trial:
            length = 0.5 * trial.length
            return _Trial(length, trial.halvings + 1, evaluate(graph, moved(length)).gap)

        one = jnp.ones_like(state.gap)
        whole = _Trial(one, jnp.zeros((), int), evaluate(graph, moved(one)).gap)
        trial = jax.lax.while_loop(too_long, halved, whole)
        stuck = trial.halvings >= settings.max_halvings
        new = moved(trial.length)
        new = jax.tree.map(lambda a, b: jnp.where(stuck, a, b), state.sites, new)
        gap = jnp.where(stuck, state.gap, trial.gap)
        return _State(new, gap, state.steps + 1, stuck)

    gap = evaluate(graph, sites).gap
    start = _State(sites, gap, jnp.zeros((), int), jnp.zeros((), bool))
    end = jax.lax.while_loop(unfinished, step, start)
    return Solution(end.sites, end.gap, end.steps)


class _State(NamedTuple):
    sites: Sites
    gap: Scalar
    steps: Array
    stuck: Array


class _Trial(NamedTuple):
    length: Scalar
    halvings: Array
    gap: Scalar


def evaluate(graph: Graph, sites: Sites) -> Evaluation:
    """The error of sites at their own beliefs."""
    q = beliefs(graph, sites)
    moments = marginals(graph, q)
    units = site_units(sites, moments)
    matching, proper = _matching_sites(graph, sites, moments)
    error = jax.tree.map(jnp.subtract, matching, sites)
    gap = jnp.max(jnp.abs(ravel_pytree(to_coordinates(units, error))[0]))
    finite = jnp.all(jnp.stack([jnp.isfinite(belief.log_normaliser) for belief in q]))
    return Evaluation(sites, moments, units, error, jnp.where(proper & finite, gap, jnp.inf))


def _matching_sites(graph: Graph, sites: Sites, moments: FixedMarginals) -> tuple[Sites, Array]:
    """The sites that match the tilted distributions, and whether all of them are proper."""
    triples = zip(graph.factors, moments, sites, strict=True)
    updates = [factor.update_at(edges, store, 1.0) for factor, edges, store in triples]
    skipped = sum(update.skipped for update in updates)
    return tuple(update.sites for update in updates), jnp.asarray(skipped == 0)


def linearised_steps(
    graph: Graph,
    at: Evaluation,
    errors: tuple[Sites, ...],
    settings: NewtonSettings = NewtonSettings(),
) -> tuple[Sites, ...]:
    """Changes of the sites that cancel each error, to first order.

    Args:
        graph: the model laid out for inference.
        at: the sites to linearise at.
        errors: the errors; for the error at the sites themselves this is Newton's step.
        settings: which sizes are solved directly.
    """
    responses = tuple(belief.response() for belief in projected(beliefs(graph, at.sites)))
    derivatives = _row_derivatives(graph, at)
    restore = ravel_pytree(at.sites)[1]

    def jacobian_product(x: Array) -> Array:
        change = from_coordinates(at.units, restore(x))
        moments = respond(graph, responses, at.moments, change)
        error = _error_change(graph, derivatives, change, moments)
        return ravel_pytree(to_coordinates(at.units, error))[0]

    b = jnp.stack([ravel_pytree(to_coordinates(at.units, error))[0] for error in errors])
    solutions = _solve_linear(jacobian_product, b, settings.largest_dense)
    return tuple(from_coordinates(at.units, restore(-x)) for x in solutions)


class _RowDerivatives(NamedTuple):
    """Derivatives of each row's matching site in its own site and moments."""

    by_shift: Sites
    by_precision: Sites
    by_mean: Sites
    by_var: Sites


def _row_derivatives(graph: Graph, at: Evaluation) -> _RowDerivatives:
    no_sites, no_moments = jax.tree.map(jnp.zeros_like, (at.sites, at.moments))

    def matching(sites: Sites, moments: FixedMarginals) -> Sites:
        return _matching_sites(graph, sites, moments)[0]

    def along(sites: Sites, moments: FixedMarginals) -> Sites:
        return jax.jvp(matching, (at.sites, at.moments), (sites, moments))[1]

    # rows are independent: one direction each serves all of them
    return _RowDerivatives(
        along(_unit_sites(at.sites, shift=True), no_moments),
        along(_unit_sites(at.sites, shift=False), no_moments),
        along(no_sites, _unit_moments(at.moments, mean=True)),
        along(no_sites, _unit_moments(at.moments, mean=False)),
    )


def _unit_sites(sites: Sites, *, shift: bool) -> Sites:
    """Changes of all shifts, or of all precisions, by one."""

    def unit_change(site: ScalarSites) -> ScalarSites:
        ones, zeros = jnp.ones_like(site.shift), jnp.zeros_like(site.shift)
        return type(site)(*((ones, zeros) if shift else (zeros, ones)))

    return jax.tree.map(unit_change, sites, is_leaf=is_site)


def _unit_moments(moments: FixedMarginals, *, mean: bool) -> FixedMarginals:
    """Changes of all means, or of all variances, by one."""

    def unit_change(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        first, second = pair
        if mean:
            return jnp.ones_like(first), jnp.zeros_like(second)
        return jnp.zeros_like(first), jnp.ones_like(second)

    return tuple(tuple(unit_change(pair) for pair in edges) for edges in moments)


def _error_change(
    graph: Graph, derivatives: _RowDerivatives, sites: Sites, moments: FixedMarginals
) -> Sites:
    """The change of the error with changes of sites and moments; absent rows match zero."""

    def edge_change(
        site: ScalarSites, moment: tuple[Array, Array], presence: Array, *by: ScalarSites
    ) -> ScalarSites:
        changes = (site.shift, site.precision, *moment)
        shift = sum(d.shift * x for d, x in zip(by, changes, strict=True))
        precision = sum(d.precision * x for d, x in zip(by, changes, strict=True))
        pairs = ((shift, site.shift), (precision, site.precision))
        return type(site)(*(jnp.where(presence > 0.0, new - old, -old) for new, old in pairs))

    presences = tuple(factor.site_presence for factor in graph.factors)
    factors = zip(sites, moments, presences, *derivatives, strict=True)
    return tuple(
        tuple(edge_change(*edge) for edge in zip(*edges, strict=True)) for edges in factors
    )


def _solve_linear(
    product: Callable[[Array], Array], b: Float[Array, "C S"], largest_dense: int
) -> Float[Array, "C S"]:
    if b.shape[1] > largest_dense:
        return jnp.stack([gmres(product, x, tol=1e-6, restart=50, maxiter=10)[0] for x in b])
    J = jax.vmap(product)(jnp.eye(b.shape[1], dtype=b.dtype)).T
    return jnp.linalg.solve(J, b.T).T
