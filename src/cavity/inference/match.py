r"""The site update, for every power.

With G and H the first derivative and the curvature of $\log M_a$ in the cavity mean,

$$\tau = -\frac{H}{1 + a H v}, \qquad \nu = \tau m + \frac{G}{1 + a H v}$$

at the cavity $(m, v)$ of the projected variable; blocks the same with matrices. A step of size
$\rho$ moves each natural parameter by that share: $\rho = a$ is classical Power EP, $\rho = 1$
jumps. At power 0 it is natural-gradient variational inference.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from cavity.inference.energy import Beliefs, latent, seen
from cavity.inference.factors import SiteFactor
from cavity.inference.rows import Rows
from cavity.inference.sites import AbstractSites
from cavity.numerics.powers import Power
from cavity.numerics.types import Array, Float


def update(
    factor: SiteFactor, rows: Rows, sites: tuple[AbstractSites, ...], q: Beliefs, step: Power
) -> tuple[tuple[AbstractSites, ...], Float[Array, ""], Float[Array, ""]]:
    """New sites of a chunk of rows, all moved in parallel from the same beliefs.

    A site whose cavity is not a proper Gaussian, or whose match is not finite, stays as it is
    and counts as skipped. Sites of absent rows stay as they are.

    Returns:
        The sites; the largest mismatch between the moments of the tilted distributions and of
        the beliefs, in standard deviations; the number of sites skipped.
    """
    power = factor.row_power(rows)
    views = seen(factor, rows, q)
    cavities = [s.cavity(v.mean, v.var, power) for s, v in zip(sites, views, strict=True)]
    inputs = [latent((c[0], c[1]), v.projection) for c, v in zip(cavities, views, strict=True)]
    means = tuple(m for m, _ in inputs)
    variances = tuple(v for _, v in inputs)
    slopes, bends = _derivatives(factor, means, variances, rows, power)
    present = factor.row_presence(rows)
    ok = jnp.all(jnp.stack([c[2] for c in cavities]), axis=0)
    new, worst = [], jnp.zeros((), rows.y.dtype)
    skipped = jnp.zeros((), rows.y.dtype)
    for site, view, cavity, slope, bend in zip(sites, views, cavities, slopes, bends, strict=True):
        matched = site.matched(cavity[0], cavity[1], slope, bend, power)
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
    power = factor.row_power(rows)
    cavities = [s.cavity(m, v, power)[:2] for s, (m, v) in zip(sites, held, strict=True)]
    projections = [edge.view.project(rows) for edge in factor.edges]
    inputs = [latent(c, p) for c, p in zip(cavities, projections, strict=True)]
    means, variances = (tuple(part) for part in zip(*inputs, strict=True))
    slopes, bends = _derivatives(factor, means, variances, rows, power)
    parts = zip(cavities, slopes, bends, strict=True)
    # m + a v G,  v + a v² H
    return tuple((m + power * v * g, v + power * v**2 * h) for (m, v), g, h in parts)


def _derivatives(
    factor: SiteFactor,
    means: tuple[Array, ...],
    variances: tuple[Array, ...],
    rows: Rows,
    power: Power,
) -> tuple[list[Array], list[Array]]:
    """Slope and curvature of log M in each cavity mean; rows and outputs are independent."""
    if factor.tilted is not None and len(means) == 1 and not rows.blocked:
        found = factor.tilted(means, variances, rows, power)
        return [found.slope], [found.curvature]

    def slope_at(edge: int, edge_mean: Array) -> Array:
        def total(mean: Array) -> Array:
            changed = (*means[:edge], mean, *means[edge + 1 :])
            return jnp.sum(factor.log_power_mean(changed, variances, rows, power))

        return jax.grad(total)(edge_mean)

    slopes, bends = [], []
    for edge, mean in enumerate(means):
        slope = functools.partial(slope_at, edge)
        slopes.append(slope(mean))
        bends.append(_curvature(slope, mean, blocked=rows.blocked))
    return slopes, bends


def _curvature(slope: Callable[[Array], Array], mean: Array, *, blocked: bool) -> Array:
    """The derivative of the slope, row by row (blocks: a matrix each)."""

    def along(direction: Array) -> Array:
        return jax.jvp(slope, (mean,), (jnp.broadcast_to(direction, mean.shape),))[1]

    if not blocked:
        return along(jnp.ones((), mean.dtype))
    return jnp.moveaxis(jax.vmap(along)(jnp.eye(mean.shape[-1], dtype=mean.dtype)), 0, -1)


def _finite(site: AbstractSites, ok: Array) -> Array:
    parts = [jnp.isfinite(site.shift), jnp.isfinite(site.precision)]
    return jnp.all(
        jnp.stack([jnp.all(p.reshape((*ok.shape, -1)), axis=-1) for p in parts]), axis=0
    )


def _mismatch(old: AbstractSites, new: AbstractSites, var: Array, weight: Array) -> Array:
    """How far the sites would move the moments, relative to standard deviations."""
    if var.ndim == 2:
        precision = jnp.abs(new.precision - old.precision) * var
        shift = jnp.abs(new.shift - old.shift) * jnp.sqrt(var)
    else:
        scale = jnp.sqrt(jnp.diagonal(var, axis1=-2, axis2=-1))
        change = jnp.abs(new.precision - old.precision)
        precision = jnp.max(change * scale[..., None] * scale[..., None, :], axis=(-2, -1))
        shift = jnp.max(jnp.abs(new.shift - old.shift) * scale, axis=-1)
    # not 0 * inf where a site was skipped
    change = jnp.where(weight > 0, jnp.maximum(precision, shift), 0.0)
    return jnp.max(change)
