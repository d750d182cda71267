"""Schedules: how sites are brought to a fixed point, and the record of it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites, beliefs
from cavity.inference.factors import SiteFactor
from cavity.inference.match import update
from cavity.inference.rows import Rows
from cavity.numerics.powers import Power
from cavity.numerics.rows import map_over_rows
from cavity.numerics.types import Array, Bool, Float, Int


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
        The sites, the residual before the sweep, and the number of sites skipped.
    """
    q = beliefs(graph, sites)
    moved: list = []
    residual, skipped = jnp.zeros(()), jnp.zeros(())
    for factor, store in zip(graph.factors, sites, strict=True):
        if not isinstance(factor, SiteFactor):
            moved.append(None)
            continue

        def part(rows_and_sites: tuple[Rows, Any], factor: SiteFactor = factor) -> tuple:
            rows, store = rows_and_sites
            new, worst, skips = update(factor, rows, store, q, step)
            count = rows.y.shape[0]
            return new, jnp.full(count, worst), jnp.full(count, skips / count)

        assert store is not None
        rows_and_sites = (factor.rows, factor.row_sites(store))
        new, worst, skips = map_over_rows(part, rows_and_sites, factor.chunk)
        moved.append(factor.stored(new))
        residual = jnp.maximum(residual, jnp.max(worst))
        skipped = skipped + jnp.sum(skips)
    return tuple(moved), residual, skipped


def parallel(
    graph: Graph, sites: Sites, *, step: Power, tolerance: float, max_sweeps: int
) -> tuple[Sites, SweepRecord]:
    """Parallel sweeps until a further one would change no moment by more than `tolerance`.

    Args:
        graph: the model laid out for inference; constant under differentiation here.
        sites: where to start.
        step: the damping step.
        tolerance: on the residual, in standard deviations.
        max_sweeps: sweeps at the most.
    """

    def unfinished(state: tuple) -> Array:
        _, count, residual, skipped = state
        return (count < max_sweeps) & ~((residual < tolerance) & (skipped == 0))

    def once(state: tuple) -> tuple:
        sites, count, _, _ = state
        sites, residual, skipped = sweep(graph, sites, step)
        return sites, count + 1, residual, skipped

    start = (sites, jnp.zeros((), int), jnp.full((), jnp.inf), jnp.zeros(()))
    sites, count, residual, skipped = jax.lax.while_loop(unfinished, once, start)
    return sites, SweepRecord(count, residual, skipped, (residual < tolerance) & (skipped == 0))
