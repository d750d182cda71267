r"""Sites over blocks of weights, whose cavities are shifts and precisions.

A direction that data do not see has an infinite variance in the cavity, so that the moments of
tilted distributions are computed from cavities' precisions. These are what is left of the inverse
of the belief's covariance, which loses digits where the data are far more precise than the prior
(docs/theory/weights.md). The integral of cavity times prior
is taken as it stands, without the log-partition of the cavity, which the scale of a site would
subtract and add: $\log s = \log \int p(\mathbf w)\, c(\mathbf w)\, d\mathbf w - \Phi(q)$.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from cavity.inference.graph.sites import AbstractSites, BlockSites
from cavity.numerics.linalg import cholesky_and_inverse, log_determinant
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float

# Eigenvalues of a cavity's precision below zero, in units of the belief's, that count as zero.
_ROUNDING = 1e-10


class WeightBlockSites(AbstractSites):
    """One Gaussian site over the weights of each block, per output, at power 1."""

    moves_improper: ClassVar[bool] = True

    shift: Float[Array, "B P W"]
    precision: Float[Array, "B P W W"]

    def cavity(self, mean: Array, var: Array, power: Power) -> tuple[Array, Array, Array]:
        """Shift and precision of the cavity, and whether it is proper.

        Of one that is not, directions of negative precision count as unknown, so that the site
        can move on.
        """
        assert is_exactly(power, 1.0)
        known = _inverses(var)[1]
        precision = known - self.precision
        shift = jnp.einsum("bpwu,bpu->bpw", known, mean) - self.shift
        unit = jnp.sqrt(jnp.diagonal(jax.lax.stop_gradient(var), axis1=-2, axis2=-1))
        units = unit[..., :, None] * unit[..., None, :]
        values, axes = jnp.linalg.eigh(jax.lax.stop_gradient(precision) * units)
        proper = values[..., 0] >= -_ROUNDING
        less = jnp.where(proper[..., None], 0.0, jnp.minimum(values, 0.0))
        below = jnp.einsum("bpwv,bpv,bpuv->bpwu", axes, less, axes)
        return shift, precision - below / units, proper

    def log_normaliser_ratio(self, mean: Array, var: Array, power: Power) -> Array:
        r"""$-\Phi(q)$: the log-partition of the cavity is left out here and in the term."""
        assert is_exactly(power, 1.0)
        L, known = _inverses(var)
        quadratic = jnp.einsum("bpw,bpwu,bpu->bp", mean, known, mean)
        return -0.5 * (mean.shape[-1] * LOG_2PI + log_determinant(L) + quadratic)

    def moment_match(
        self, mean: Array, var: Array, slope: Array, curvature: Array, power: Power
    ) -> "WeightBlockSites":
        """The site that makes moments of the cavity those of the tilted distribution.

        Args:
            mean: shift of the cavity.
            var: its precision.
            slope: mean of the tilted distribution.
            curvature: its covariance.
            power: 1.
        """
        known = _inverses(curvature)[1]
        shift = jnp.einsum("bpwu,bpu->bpw", known, slope)
        return WeightBlockSites(shift - mean, known - var)

    def where(self, new: "WeightBlockSites", ok: Array) -> "WeightBlockSites":
        return _sites(_matrices(self).where(_matrices(new), ok))

    def moment_change(self, new: "WeightBlockSites", var: Array) -> Array:
        return _matrices(self).moment_change(_matrices(new), var)

    def fisher_scale(self, var: Array) -> "WeightBlockSites":
        return _sites(_matrices(self).fisher_scale(var))


def _matrices(sites: WeightBlockSites) -> BlockSites:
    return BlockSites(sites.shift, sites.precision)


def _sites(matrices: BlockSites) -> WeightBlockSites:
    return WeightBlockSites(matrices.shift, matrices.precision)


def _inverses(
    cov: Float[Array, "B P W W"],
) -> tuple[Float[Array, "B P W W"], Float[Array, "B P W W"]]:
    """Cholesky factors and inverses of covariances."""
    L, root = jax.vmap(jax.vmap(cholesky_and_inverse))(cov)
    return L, jnp.einsum("bpvw,bpvu->bpwu", root, root)
