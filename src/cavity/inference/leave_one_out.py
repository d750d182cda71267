r"""Leave-one-out predictive densities, from the cavities, and the sites that make them.

Taking the whole of a row's site out of the posterior leaves what the other rows contribute, so
that $\log \mathbb E_{q / t_n}[p(y_n \mid f_n)]$ approximates
$\log p(y_n \mid \mathbf y_{-n})$. For the exact GP it is the closed form.
"""

from typing import cast

import jax.numpy as jnp

from cavity.inference.energy import Beliefs, Graph, Sites
from cavity.inference.factors.base import Stores
from cavity.inference.factors.local import LocalFactor
from cavity.inference.graph.base import AbstractSiteView
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import ScalarSites, all_proper
from cavity.numerics.chunking import map_over_rows
from cavity.numerics.types import Array, Float


def leave_one_out(
    graph: Graph, sites: Sites, q: Beliefs
) -> tuple[Float[Array, "N P"] | None, ...]:
    """Log predictive density of every output given all others, of regressions and local factors.

    NaN where the cavity is not a proper Gaussian. None for blocks, whose rows share a site. Bounds
    over an order have none.

    References:
        Jylanki (2013), S24 and identity 19.
    """
    pairs = zip(graph.factors, graph.split(sites)[0], strict=True)
    own = (_densities_without_rows(factor, q, store) for factor, store in pairs)
    return (*(regression.leave_one_out(q) for regression in graph.regressions), *own)


def site_precisions(
    graph: Graph, sites: Sites, q: Beliefs
) -> tuple[tuple[Float[Array, "N P"], ...] | None, ...]:
    """The precision of every row's site on each latent function, likewise.

    None where rows have no scalar sites on functions: in blocks, and of dependent classes.
    """
    pairs = zip(graph.factors, graph.split(sites)[0], strict=True)
    own = (_precisions(factor, q, store) for factor, store in pairs)
    return (*(regression.site_precisions(q) for regression in graph.regressions), *own)


def _densities_without_rows(
    factor: LocalFactor, q: Beliefs, sites: Stores
) -> Float[Array, "N P"] | None:
    shared = any(not (edge.slots.private or edge.view.scalar) for edge in factor.edges)
    if factor.rows.blocked or factor.term.joint or shared:
        return None

    def chunk_densities(chunk: tuple[Rows, Stores]) -> Array:
        rows = factor.carrying(chunk[0])
        own = _own_sites(factor, q, rows, chunk[1])
        without = [
            cast(AbstractSiteView, edge.view).without_site(q[edge.variable], rows, site)
            for edge, site in zip(factor.edges, own, strict=True)
        ]
        density = factor.term.log_density(tuple(latent for latent, _ in without), rows)
        proper = all_proper([ok for _, ok in without])
        return jnp.where(proper, density, jnp.nan)

    return map_over_rows(chunk_densities, (factor.rows, factor.row_sites(sites)), factor.chunk)


def _precisions(
    factor: LocalFactor, q: Beliefs, sites: Stores
) -> tuple[Float[Array, "N P"], ...] | None:
    if factor.rows.blocked or not all(edge.view.scalar for edge in factor.edges):
        return None

    def chunk_precisions(chunk: tuple[Rows, Stores]) -> tuple[Array, ...]:
        rows = factor.carrying(chunk[0])
        return tuple(site.precision for site in _own_sites(factor, q, rows, chunk[1]))

    return map_over_rows(chunk_precisions, (factor.rows, factor.row_sites(sites)), factor.chunk)


def _own_sites(factor: LocalFactor, q: Beliefs, rows: Rows, sites: Stores) -> Stores:
    """Each row's site; where rows share one, the site that matches the row at the belief.

    A share of a tied site is not what a row contributes. At power 0 the matching site is
    exactly the row's own.
    """
    if not all(edge.slots.private for edge in factor.edges):
        sites = _matched_sites(factor, q, rows)
    return tuple(e.own_sites(rows, s) for e, s in zip(factor.edges, sites, strict=True))


def _matched_sites(factor: LocalFactor, q: Beliefs, rows: Rows) -> Stores:
    marginals = [edge.view.marginal(q[edge.variable], rows) for edge in factor.edges]
    latents = tuple(marginal.latent(*marginal.moments) for marginal in marginals)
    tilted = factor.term.derivatives(latents, rows, 0.0)
    zero = [ScalarSites(*(jnp.zeros_like(m.moments[0]),) * 2) for m in marginals]
    triples = zip(zero, marginals, tilted, strict=True)
    return tuple(
        site.moment_match(*m.moments, by.slope, by.curvature, 0.0) for site, m, by in triples
    )
