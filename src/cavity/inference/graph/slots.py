"""Slots: which stored site each row of a factor uses."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.graph.sites import AbstractSites
from cavity.numerics.types import Array, Float, Int


class AbstractSlots(eqx.Module):
    """A map from rows to stored sites, independent of what the rows see (their view).

    To implement:
        `count(rows)`, `expand(store, rows)` and `reduce(sites, presence)`.
    """

    @abc.abstractmethod
    def count(self, rows: int) -> int:
        """The number of sites stored for that many rows."""

    @abc.abstractmethod
    def expand(self, store: AbstractSites, rows: int) -> AbstractSites:
        """The site of every row."""

    @abc.abstractmethod
    def reduce(self, sites: AbstractSites, presence: Float[Array, "N P"]) -> AbstractSites:
        """The store from one site per row: the mean over the rows that share a slot."""


class Private(AbstractSlots):
    """A site of its own for every row."""

    def count(self, rows: int) -> int:
        return rows

    def expand(self, store: AbstractSites, rows: int) -> AbstractSites:
        return store

    def reduce(self, sites: AbstractSites, presence: Float[Array, "N P"]) -> AbstractSites:
        return sites


class Indexed(AbstractSlots):
    """Rows with the same index share a site; one index for all is a tied site.

    An averaged update of a shared site is that of stochastic (averaged) EP. For a power above 0
    its fixed point is not in general stationary for the energy.
    """

    index: Int[Array, " N"]
    slots: int = eqx.field(static=True)

    def count(self, rows: int) -> int:
        return self.slots

    def expand(self, store: AbstractSites, rows: int) -> AbstractSites:
        return jax.tree.map(lambda x: x[self.index], store)

    def reduce(self, sites: AbstractSites, presence: Float[Array, "N P"]) -> AbstractSites:
        def total(x: Array) -> Array:
            return jax.ops.segment_sum(x, self.index, self.slots)

        def mean(x: Array) -> Array:
            weight = presence.reshape(presence.shape + (1,) * (x.ndim - presence.ndim))
            return total(weight * x) / jnp.maximum(total(weight), 1.0)

        return jax.tree.map(mean, sites)
