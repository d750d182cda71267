r"""Sites of rows over all weights of a function, with one half of their symmetric precisions.

Rows have $p (p + 1) / 2$ numbers each in the place of $p^2$: of a large table sites are what takes
most memory, for solvers keep many of them. Matrices are made for a chunk of rows at a time.
"""

import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.sites import AbstractSites, BlockSites
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Bool, Float


class WholeSites(AbstractSites):
    """One Gaussian site of a row over the p weights of each function.

    Attributes:
        shift: the shifts.
        precision: the lower triangles of the precisions, row by row: t is p (p + 1) / 2.
    """

    shift: Float[Array, "N P p"]
    precision: Float[Array, "N P t"]

    @classmethod
    def from_blocks(cls, sites: BlockSites) -> "WholeSites":
        """The same sites, of which the precisions are symmetric."""
        rows, columns = lower(sites.shift.shape[-1])
        return cls(sites.shift, sites.precision[..., rows, columns])

    def matrices(self) -> BlockSites:
        """The same sites with whole matrices."""
        rows, columns = lower(self.shift.shape[-1])
        place = np.zeros((self.shift.shape[-1],) * 2, int)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))
        return BlockSites(self.shift, self.precision[..., place])

    def diagonal(self) -> Float[Array, "N P p"]:
        """The diagonals of the precisions."""
        ends = np.cumsum(np.arange(1, self.shift.shape[-1] + 1)) - 1
        return self.precision[..., ends]

    def cavity(self, mean: Array, var: Array, power: Power) -> tuple[Array, Array, Array]:
        return self.matrices().cavity(mean, var, power)

    def log_normaliser_ratio(self, mean: Array, var: Array, power: Power) -> Array:
        return self.matrices().log_normaliser_ratio(mean, var, power)

    def moment_match(
        self, mean: Array, var: Array, slope: Array, curvature: Array, power: Power
    ) -> "WholeSites":
        return WholeSites.from_blocks(
            self.matrices().moment_match(mean, var, slope, curvature, power)
        )

    def where(self, new: "WholeSites", ok: Bool[Array, "N P"]) -> "WholeSites":
        shift, precision = (
            jnp.where(ok[..., None], to, old)
            for to, old in ((new.shift, self.shift), (new.precision, self.precision))
        )
        return WholeSites(shift, precision)

    def moment_change(self, new: "WholeSites", var: Array) -> Array:
        return self.matrices().moment_change(new.matrices(), var)

    def fisher_scale(self, var: Array) -> "WholeSites":
        """Scales as in `BlockSites`, where a number off the diagonal stands for two entries."""
        found = WholeSites.from_blocks(self.matrices().fisher_scale(var))
        rows, columns = lower(self.shift.shape[-1])
        twice = np.where(rows == columns, 1.0, 2.0**0.5)
        return WholeSites(found.shift, found.precision * jnp.asarray(twice, var.dtype))


def lower(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries of a lower triangle."""
    return np.tril_indices(size)
