r"""Sites over blocks of weights, whose cavities are shifts and precisions.

A direction that data do not see has an infinite variance in the cavity, so that the moments of
tilted distributions are computed from cavities' precisions. What rows see of the belief are shifts
and precisions without their own sites, for which all other weights are integrated out
(`Blocks.cavities`): the difference of the belief's precision and a site's loses the digits of the
cavity where one of them is large (docs/theory/weights.md). The integral of cavity times prior is
taken as it stands, without the log-partition of the cavity, which the scale of a site would
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

# Eigenvalues of a cavity's precision below zero that count as zero: in units of the belief's, and
# as a share of the largest.
_ROUNDING, _SHARE = 1e-10, 1e-12


class WeightBlockSites(AbstractSites):
    """One Gaussian site over the weights of each block, per output, at power 1.

    In the place of means and variances of the belief its methods take shifts and precisions of
    the belief without the site.
    """

    moves_improper: ClassVar[bool] = True

    shift: Float[Array, "B P W"]
    precision: Float[Array, "B P W W"]

    def cavity(self, shift: Array, precision: Array, power: Power) -> tuple[Array, Array, Array]:
        """Shift and precision of the cavity, and whether it is proper.

        Of one that is not, directions of negative precision count as unknown, so that the site
        can move on.
        """
        assert is_exactly(power, 1.0)
        held = jax.lax.stop_gradient(precision)
        unit = jnp.sqrt(jnp.diagonal(self._covariance(held), axis1=-2, axis2=-1))
        units = unit[..., :, None] * unit[..., None, :]
        values, axes = jnp.linalg.eigh(held * units)
        proper = values[..., 0] >= -_ROUNDING - _SHARE * values[..., -1]
        less = jnp.where(proper[..., None], 0.0, jnp.minimum(values, 0.0))
        below = jnp.einsum("bpwv,bpv,bpuv->bpwu", axes, less, axes)
        return shift, precision - below / units, proper

    def log_normaliser_ratio(self, shift: Array, precision: Array, power: Power) -> Array:
        r"""$-\Phi(q)$: the log-partition of the cavity is left out here and in the term."""
        assert is_exactly(power, 1.0)
        L, root = _factors(precision + self.precision)
        pushed = jnp.einsum("bpwu,bpu->bpw", root, shift + self.shift)
        volume = shift.shape[-1] * LOG_2PI - log_determinant(L)
        return -0.5 * (volume + jnp.sum(pushed**2, axis=-1))

    def moment_match(
        self, shift: Array, precision: Array, slope: Array, curvature: Array, power: Power
    ) -> "WeightBlockSites":
        """The site that makes the moments of cavity times site those of the tilted distribution.

        Args:
            shift: of the cavity.
            precision: of the cavity.
            slope: shift of the tilted distribution's Gaussian, less that of the cavity.
            curvature: its precision, less that of the cavity.
            power: 1.
        """
        return WeightBlockSites(slope, curvature)

    def where(self, new: "WeightBlockSites", ok: Array) -> "WeightBlockSites":
        return _sites(_matrices(self).where(_matrices(new), ok))

    def moment_change(self, new: "WeightBlockSites", precision: Array) -> Array:
        return _matrices(self).moment_change(_matrices(new), self._covariance(precision))

    def fisher_scale(self, precision: Array) -> "WeightBlockSites":
        return _sites(_matrices(self).fisher_scale(self._covariance(precision)))

    def _covariance(self, precision: Float[Array, "B P W W"]) -> Float[Array, "B P W W"]:
        """The belief's covariance, from the precision of the cavity."""
        root = _factors(precision + self.precision)[1]
        return jnp.einsum("bpvw,bpvu->bpwu", root, root)


def _matrices(sites: WeightBlockSites) -> BlockSites:
    return BlockSites(sites.shift, sites.precision)


def _sites(matrices: BlockSites) -> WeightBlockSites:
    return WeightBlockSites(matrices.shift, matrices.precision)


def _factors(
    precision: Float[Array, "B P W W"],
) -> tuple[Float[Array, "B P W W"], Float[Array, "B P W W"]]:
    """Cholesky factors and their inverses."""
    return jax.vmap(jax.vmap(cholesky_and_inverse))(precision)
