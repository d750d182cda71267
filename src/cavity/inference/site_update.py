r"""The site update, for every power.

With G and H the first derivative and the curvature of $\log M_a$ in the cavity mean,

$$\tau = -\frac{H}{1 + a H v}, \qquad \nu = \tau m + \frac{G}{1 + a H v}$$

at the cavity $(m, v)$ of the projected variable; blocks the same with matrices. A step of size
$\rho$ moves each natural parameter by that share: $\rho = a$ is classical Power EP, $\rho = 1$
jumps. At power 0 it is natural-gradient variational inference.

Where only differences between functions matter that are alike a priori, the slopes G of a row add
up to zero, and so at a fixed point do the means. Sweeps alone approach the height that they share
ever more slowly the more data there are: a match takes it out of the cavities. With H below zero,
as log-concave densities have it, this has no fixed points but theirs.
"""

import jax
import jax.numpy as jnp

from cavity.inference.energy import Marginal, cavity_marginals
from cavity.inference.factors.site import SiteFactor
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float


def update(
    factor: SiteFactor,
    rows: Rows,
    sites: tuple[AbstractSites, ...],
    views: tuple[Marginal, ...],
    step: Power,
) -> tuple[tuple[AbstractSites, ...], Float[Array, ""], Float[Array, ""]]:
    """New sites of a chunk of rows, all moved in parallel from what they see of the beliefs.

    A site whose cavity is not a proper Gaussian, or whose match is not finite, stays as it is
    and counts as skipped. Sites of absent rows stay as they are.

    Returns:
        The sites; the largest mismatch between the moments of the tilted distributions and of
        the beliefs, in standard deviations; the number of sites skipped.
    """
    power = factor.site_power(rows)
    faced, ok = cavity_marginals(factor, rows, sites, views)
    tilted = factor.term.derivatives(faced, rows, factor.row_power(rows))
    present = factor.row_presence(rows)
    new, worst = [], jnp.zeros((), rows.y.dtype)
    skipped = jnp.zeros((), rows.y.dtype)
    height = sum(view.mean for view in views) / len(views) if factor.level else 0.0
    for site, view, found in zip(sites, views, tilted, strict=True):
        mean, var, _ = site.cavity(*factor.visible(view.mean, view.var), power)
        matched = site.matched(mean - height, var, found.slope, found.curvature, power)
        finite = ok & _finite(matched, ok)
        moved = jax.tree.map(lambda old, to: old + step * (to - old), site, matched)
        worst = jnp.maximum(worst, _mismatch(site, matched, view.var, finite * present))
        # an absent row may not have a proper cavity, and the energy needs one
        new.append(site.keep(moved, finite & (present > 0.0)))
        skipped = jnp.maximum(skipped, jnp.sum(jnp.where(finite, 0.0, present)))
    return tuple(new), worst, skipped


def tilted_marginals(
    factor: SiteFactor,
    rows: Rows,
    sites: tuple[AbstractSites, ...],
    held: tuple[tuple[Array, Array], ...],
) -> tuple[tuple[Array, Array], ...]:
    """Means and variances of the tilted distributions, at cavities from given marginals."""
    power = factor.site_power(rows)
    views = tuple(
        Marginal(*marginal, edge.view.project(rows))
        for marginal, edge in zip(held, factor.edges, strict=True)
    )
    faced, _ = cavity_marginals(factor, rows, sites, views)
    tilted = factor.term.derivatives(faced, rows, factor.row_power(rows))
    cavities = [
        site.cavity(*marginal, power)[:2] for site, marginal in zip(sites, held, strict=True)
    ]
    # m + a v G,  v + a v² H
    return tuple(
        (m + power * v * found.slope, v + power * v**2 * found.curvature)
        for (m, v), found in zip(cavities, tilted, strict=True)
    )


def _finite(site: AbstractSites, ok: Array) -> Array:
    parts = [jnp.isfinite(site.shift), jnp.isfinite(site.precision)]
    return jnp.all(
        jnp.stack([jnp.all(p.reshape((*ok.shape, -1)), axis=-1) for p in parts]), axis=0
    )


def _mismatch(old: AbstractSites, new: AbstractSites, var: Array, weight: Array) -> Array:
    """How far the sites would move the moments, relative to standard deviations."""
    # not 0 * inf where a site was skipped
    return jnp.max(jnp.where(weight > 0, old.distance(new, var), 0.0))
