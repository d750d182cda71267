r"""The site update, for every power.

With G and H the first derivative and the curvature of $\log M_a$ in the cavity mean,

$$\tau = -\frac{H}{1 + a H v}, \qquad \nu = \tau m + \frac{G}{1 + a H v}$$

at the cavity $(m, v)$ of the projected variable; blocks the same with matrices. A step of size
$\rho$ moves each natural parameter by that share: $\rho = a$ is classical Power EP, $\rho = 1$
jumps. At power 0 it is natural-gradient variational inference.

**Exchangeable latent functions share a common mode.** When a likelihood depends only on
differences between latent functions with the same prior, the slopes G of a row add up to zero, and
the sum of the posterior means is zero at every fixed point. Parallel sweeps converge in that
direction ever more slowly as N grows, so `update_sites` can subtract the mean over functions from
the cavity means before matching. Where H is negative, as for log-concave densities, the fixed
points are unchanged.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from cavity.inference.graph.marginals import AbstractMarginal, Moments
from cavity.inference.graph.sites import AbstractSites
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Tilted
from cavity.numerics.types import Array


def update_sites(
    sites: Sequence[AbstractSites | None],
    marginals: Sequence[AbstractMarginal],
    cavities: Sequence[Moments],
    tilted: Sequence[Tilted | None],
    presences: Sequence[Array],
    *,
    proper: Array,
    power: Power,
    step: Power,
    centre_common_mode: bool = False,
) -> tuple[tuple[Any, ...], Array, Array]:
    """New sites of a chunk of rows, all moved in parallel.

    A site whose cavity is not a proper Gaussian, or whose match is not finite, stays as it is
    and counts as skipped; sites that move in spite of their cavity count too. Sites of absent rows
    stay as they are.

    Args:
        sites: the sites of the rows, per edge; None where rows do not store one.
        marginals: what the rows see of the beliefs, per edge.
        cavities: cavity means and variances, per edge.
        tilted: slope and curvature of log M at the cavities, per edge.
        presences: positive where a site belongs to data, per edge.
        proper: whether the cavities of a row are proper.
        power: the power of the sites.
        step: the share of the way to the matched sites.
        centre_common_mode: whether to subtract the mean over edges from the cavity means.

    Returns:
        The sites; the largest mismatch between the moments of the tilted distributions and of
        the beliefs, in standard deviations; the number of sites skipped.
    """
    dtype = marginals[0].moments[0].dtype
    new: list[AbstractSites | None] = []
    residual, skipped = jnp.zeros((), dtype), jnp.zeros((), dtype)
    common = sum(m.moments[0] for m in marginals) / len(marginals) if centre_common_mode else 0.0
    for i, (site, found) in enumerate(zip(sites, tilted, strict=True)):
        if site is None or found is None:
            new.append(None)
            continue
        (mean, var), present = cavities[i], presences[i]
        match = site.moment_match(mean - common, var, found.slope, found.curvature, power)
        finite = _is_finite(match, present)
        fine = proper & finite
        moves = finite if site.moves_improper else fine
        moved = jax.tree.map(lambda old, to: old + step * (to - old), site, match)
        _, spread = marginals[i].moments
        residual = jnp.maximum(residual, _mismatch(site, match, spread, fine * present))
        # an absent row may not have a proper cavity, and the energy needs one
        new.append(site.where(moved, moves & (present > 0.0)))
        skipped = jnp.maximum(skipped, jnp.sum(~fine & (present > 0.0), dtype=dtype))
    return tuple(new), residual, skipped


def _is_finite(site: AbstractSites, like: Array) -> Array:
    """True where all numbers of a site are finite, one value per site."""
    parts = [jnp.isfinite(site.shift), jnp.isfinite(site.precision)]
    flat = [jnp.all(part.reshape((*like.shape, -1)), axis=-1) for part in parts]
    return flat[0] & flat[1]


def _mismatch(old: AbstractSites, new: AbstractSites, var: Array, weight: Array) -> Array:
    """The largest change of a moment, relative to its standard deviation."""
    # not 0 * inf where a site was skipped
    return jnp.max(jnp.where(weight > 0, old.moment_change(new, var), 0.0))
