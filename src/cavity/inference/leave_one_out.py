r"""Leave-one-out predictive densities, from the cavities, and the sites that make them.

Taking the whole of a row's site out of the posterior leaves what the other rows say, so that
$\log \mathbb E_{q / t_n}[p(y_n \mid f_n)]$ approximates $\log p(y_n \mid \mathbf y_{-n})$. For the
exact GP it is the closed form.
"""

import jax.numpy as jnp

from cavity.inference.approximations.local_terms import Latent, MultinomialProbitTerm, latent
from cavity.inference.energy import Beliefs, Graph, Sites, seen
from cavity.inference.factors.site import ExactFactor, SiteFactor
from cavity.inference.graph.base import Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import (
    AbstractSites,
    BlockSites,
    ClassSites,
    ScalarSites,
    class_precision,
)
from cavity.numerics.chunking import map_over_rows
from cavity.numerics.gaussian import LOG_2PI
from cavity.numerics.types import Array, Float


def leave_one_out(graph: Graph, sites: Sites, q: Beliefs) -> Float[Array, "N P"] | None:
    """Log predictive density of every output given all others, for a graph of one factor.

    NaN where the cavity is not a proper Gaussian. None for blocks, whose rows share a site.

    References:
        Jylanki (2013), S24 and identity 19.
    """
    (factor,), (store,) = graph.factors, sites
    if factor.rows.blocked:
        return None
    if isinstance(factor, ExactFactor):
        return map_over_rows(lambda rows: _exact(factor, rows, q), factor.rows, factor.chunk)
    assert store is not None

    def part(chunk: tuple[Rows, tuple[AbstractSites, ...]]) -> Array:
        rows, row_sites = chunk
        # without their own sites, rows that see contrasts see the functions of all classes
        views = seen(factor, rows, q)
        pairs = [(_whole(s, v.projection), v) for s, v in zip(row_sites, views, strict=True)]
        cavities = [site.cavity(v.mean, v.var, 1.0) for site, v in pairs]
        inputs = [_latent(c[:2], v.projection) for c, v in zip(cavities, views, strict=True)]
        density = factor.term.log_density(tuple(inputs), rows)
        proper = jnp.all(jnp.stack([c[2] for c in cavities]), axis=0)
        return jnp.where(proper, density, jnp.nan)

    assert isinstance(factor, SiteFactor)
    return map_over_rows(part, (factor.rows, factor.row_sites(store)), factor.chunk)


def site_precisions(graph: Graph, sites: Sites) -> tuple[Float[Array, "N P"], ...] | None:
    """The precision of every row's site on each latent function, for a graph of one factor.

    None where rows have no scalar sites on functions: in blocks, and of dependent classes.
    """
    (factor,), (store,) = graph.factors, sites
    if factor.rows.blocked:
        return None
    if isinstance(factor, ExactFactor):

        def exact(rows: Rows) -> Array:
            shift, precision, _ = factor.sites(rows, factor.edge.view.project(rows))
            return jnp.broadcast_to(precision, shift.shape)

        return (map_over_rows(exact, factor.rows, factor.chunk),)
    assert isinstance(factor, SiteFactor)
    assert store is not None
    own = factor.row_sites(store)
    if isinstance(factor.term, MultinomialProbitTerm) or not all(
        isinstance(s, ScalarSites) for s in own
    ):
        return None
    return tuple(site.precision for site in own)


def _whole(site: AbstractSites, projection: Projection) -> AbstractSites:
    """The site of a row on what it sees; of classes one on all their functions."""
    if projection.contrasts is not None:
        return projection.contrasts.class_sites(site.shift, site.precision)
    if isinstance(site, ClassSites):
        return BlockSites(site.shift, class_precision(site.precision))
    return site


def _latent(marginal: tuple[Array, Array], projection: Projection) -> Latent:
    if projection.contrasts is None:
        return latent(marginal, projection)
    residual, offset = projection.contrasts.residual, projection.contrasts.offset
    eye = jnp.eye(residual.shape[1], dtype=residual.dtype)
    return Latent(
        marginal[0] + offset[:, None], marginal[1], (residual[:, :, None] * eye)[:, None]
    )


def _exact(factor: ExactFactor, rows: Rows, q: Beliefs) -> Float[Array, "N P"]:
    projection = factor.edge.view.project(rows)
    shift, precision, _ = factor.sites(rows, projection)
    mean, var = q[factor.edge.variable].marginal(projection)
    site = ScalarSites(shift, jnp.broadcast_to(precision, shift.shape))
    m, v, proper = site.cavity(mean, var, 1.0)
    f_mean, f_var, residual = latent((m, v), projection)
    total = f_var + residual + factor.noise_variance(**rows.columns)
    density = -0.5 * (LOG_2PI + jnp.log(total) + (rows.y - f_mean) ** 2 / total)
    return jnp.where(proper, density, jnp.nan)
