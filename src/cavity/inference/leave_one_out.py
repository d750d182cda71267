r"""Leave-one-out predictive densities, from the cavities.

Taking the whole of a row's site out of the posterior leaves what the other rows say, so that
$\log \mathbb E_{q / t_n}[p(y_n \mid f_n)]$ approximates $\log p(y_n \mid \mathbf y_{-n})$. For the
exact GP it is the closed form.
"""

import jax.numpy as jnp

from cavity.inference.energy import Beliefs, Graph, Sites, seen
from cavity.inference.factors import ExactFactor, SiteFactor
from cavity.inference.rows import Rows
from cavity.inference.sites import ScalarSites
from cavity.inference.terms import latent
from cavity.numerics.gaussian import LOG_2PI
from cavity.numerics.rows import map_over_rows
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

    def part(chunk: tuple[Rows, tuple[ScalarSites, ...]]) -> Array:
        rows, row_sites = chunk
        views = seen(factor, rows, q)
        cavities = [s.cavity(v.mean, v.var, 1.0) for s, v in zip(row_sites, views, strict=True)]
        inputs = [latent(c[:2], v.projection) for c, v in zip(cavities, views, strict=True)]
        density = factor.term.log_density(tuple(inputs), rows)
        proper = jnp.all(jnp.stack([c[2] for c in cavities]), axis=0)
        return jnp.where(proper, density, jnp.nan)

    assert isinstance(factor, SiteFactor)
    return map_over_rows(part, (factor.rows, factor.row_sites(store)), factor.chunk)


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
