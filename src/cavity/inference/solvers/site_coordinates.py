"""Coordinates of scalar sites in which Newton's method is well scaled.

About the mean m of a marginal the moments f and f² are nearly uncorrelated. The coordinates of a
site are therefore its precision, and its shift less m times the precision, in units of what they
change the moments by.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.inference.energy import FixedMarginals, Sites
from cavity.inference.graph.sites import AbstractSites, ScalarSites
from cavity.numerics.types import Array


class SiteUnits(NamedTuple):
    """The centre and units of the coordinates of an edge's sites.

    Attributes:
        centre: the mean that the moments are about.
        shift: the unit of a shift.
        precision: the unit of a precision.
    """

    centre: Array
    shift: Array
    precision: Array


# For each factor: the units of each edge.
GraphUnits = tuple[tuple[SiteUnits, ...], ...]


def site_units(sites: Sites, moments: FixedMarginals) -> GraphUnits:
    """Units of the sites at given marginals."""

    def edge_units(site: ScalarSites, moment: tuple[Array, Array]) -> SiteUnits:
        mean, var = (jnp.broadcast_to(x, site.shift.shape) for x in moment)
        return SiteUnits(mean, 1.0 / jnp.sqrt(var), jnp.sqrt(2.0) / var)

    return tuple(
        tuple(edge_units(*pair) for pair in zip(*edges, strict=True))
        for edges in zip(sites, moments, strict=True)
    )


def from_coordinates(units: GraphUnits, coordinates: Sites) -> Sites:
    """Changes of sites from changes of their coordinates."""

    def edge_change(x: ScalarSites, unit: SiteUnits) -> ScalarSites:
        precision = unit.precision * x.precision
        return type(x)(unit.shift * x.shift + unit.centre * precision, precision)

    return jax.tree.map(edge_change, coordinates, units, is_leaf=is_site)


def to_coordinates(units: GraphUnits, change: Sites) -> Sites:
    """Changes of the coordinates of sites from changes of the sites."""

    def edge_coordinates(x: ScalarSites, unit: SiteUnits) -> ScalarSites:
        shift = (x.shift - unit.centre * x.precision) / unit.shift
        return type(x)(shift, x.precision / unit.precision)

    return jax.tree.map(edge_coordinates, change, units, is_leaf=is_site)


def is_site(x: object) -> bool:
    """True for the sites of an edge, where a tree ends."""
    return isinstance(x, AbstractSites)
