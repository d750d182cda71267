"""Sweeps over rows whose sites reach no other row: each row has a damping step of its own.

So it is with latent inputs, where functions are held. A row whose sweeps oscillate, as between
two places in the latent space, does not slow down the others.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.inference.energy import Sites
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.solvers.driver import AbstractSweeps, SweepRecord
from cavity.inference.solvers.parallel import measured_sweep
from cavity.inference.solvers.site_coordinates import is_site
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

    @property
    def residual(self) -> Array:
        """The largest change of all rows."""
        return jnp.max(self.change)


class Rowwise(AbstractSweeps[_State]):
    """Sweeps until a further one would change no number by more than the tolerance."""

    def init(self, sites: Sites) -> _State:
        first = _private(sites)[0].shift
        infinite, ones = (jnp.full(len(first), x, first.dtype) for x in (jnp.inf, 1.0))
        return _State(sites, ones, infinite, jnp.zeros(()), jnp.zeros((), int))

    def unfinished(self, state: _State) -> Array:
        return ~self.met(state)

    def found(self, state: _State) -> tuple[Sites, SweepRecord]:
        return state.sites, self.record(state, self.met(state))

    def step(self, state: _State) -> _State:
        result = measured_sweep(self.graph, state.sites, 1.0)
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


def _private(sites: Sites) -> list[AbstractSites]:
    stores = jax.tree.leaves(sites, is_leaf=is_site)
    return [store for store in stores if is_site(store)]


def _map_private(function: Callable[..., AbstractSites], sites: Sites, *others: Sites) -> Sites:
    """Stores of private sites through a function; all else as it is."""

    def mapped_store(store: object, *more: object) -> object:
        return function(store, *more) if is_site(store) else store

    return jax.tree.map(mapped_store, sites, *others, is_leaf=is_site)
