"""Blocks: sets of weights that one row of a prior sees together."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.weights.block_sites import WeightBlockSites
from cavity.numerics.types import Array, Float, Int


class Blocks(eqx.Module):
    """Which weights stand in the places of each block.

    Blocks with fewer weights than the widest have empty places at their end.

    Attributes:
        index: positions of the weights, in empty places that of the first of the block.
        present: 1 where a place has a weight, 0 where it is empty.
        count: the number of weights in all blocks.
    """

    index: Int[Array, "B W"]
    present: Float[Array, "B W"]
    count: int = eqx.field(static=True)

    @classmethod
    def of_columns(cls, blocks: Sequence[Sequence[int]], dtype: jnp.dtype) -> "Blocks":
        """The blocks of these columns, none of them empty."""
        width = max(map(len, blocks))
        index = np.array([[*block, *[block[0]] * (width - len(block))] for block in blocks])
        present = np.array([np.arange(width) < len(block) for block in blocks])
        return cls(jnp.asarray(index), jnp.asarray(present, dtype), int(present.sum()))

    def moments(
        self, mean: Float[Array, "P p"], root: Float[Array, "G p p"]
    ) -> tuple[Float[Array, "B P W"], Float[Array, "B P W W"]]:
        r"""Means and covariances of the weights of each block.

        Empty places have the variance of the block's first weight, and mean zero.

        Args:
            mean: means of all weights.
            root: R with $\mathbf R^\top \mathbf R$ the covariance of all, one for all outputs or
                one for each.
        """
        own = root[:, :, self.index]  # G p B W
        cov = jnp.einsum("gpbw,gpbu->bgwu", own, own)
        same = jnp.eye(self.index.shape[1], dtype=bool)
        cov = jnp.where(same | (self._pairs > 0.0)[:, None], cov, 0.0)
        shape = (cov.shape[0], mean.shape[0], *cov.shape[2:])
        return self.of(mean), jnp.broadcast_to(cov, shape)

    def of(self, values: Float[Array, "P p"]) -> Float[Array, "B P W"]:
        """The values of the weights of each block, zero in empty places."""
        return jnp.swapaxes(values[:, self.index], 0, 1) * self.present[:, None]

    def spread(
        self, sites: WeightBlockSites, size: int
    ) -> tuple[Float[Array, "P p"], Float[Array, "P p p"]]:
        """Shifts and precisions of all weights of which these are the blocks.

        Args:
            sites: a site for each block.
            size: the number of weights.
        """
        outputs = sites.shift.shape[1]
        shift, precision = self.present[:, None] * sites.shift, self._pairs[:, None]
        precision = precision * sites.precision
        h = jnp.zeros((outputs, size), shift.dtype)
        h = h.at[:, self.index].add(jnp.swapaxes(shift, 0, 1))
        P = jnp.zeros((outputs, size, size), shift.dtype)
        rows, columns = self.index[:, :, None], self.index[:, None, :]
        return h, P.at[:, rows, columns].add(jnp.swapaxes(precision, 0, 1))

    def put(self, values: Float[Array, "S p P"], own: Float[Array, "S B P W"]) -> Array:
        """The values of single weights, in the place of which blocks have their own."""
        # empty places are nowhere
        place = jnp.where(self.present > 0.0, self.index, values.shape[1])
        return values.at[:, place].set(jnp.swapaxes(own, 2, 3), mode="drop")

    def sites(self, precision: Float[Array, " B"], outputs: int) -> WeightBlockSites:
        """Sites about zero with these precisions of every weight."""
        shape = (*self.index.shape[:1], outputs, self.index.shape[1])
        own = (precision[:, None] * self.present)[:, None, :, None]
        each = own * jnp.eye(self.index.shape[1], dtype=precision.dtype)
        return WeightBlockSites(
            jnp.zeros(shape, precision.dtype), jnp.broadcast_to(each, (*shape, shape[-1]))
        )

    @property
    def _pairs(self) -> Float[Array, "B W W"]:
        """1 where both places have weights."""
        return self.present[:, :, None] * self.present[:, None, :]


def units_of(blocks: Sequence[Sequence[int]], count: int) -> np.ndarray:
    """The unit of each of so many columns: blocks in their order, then every other column.

    Parameters of a prior have one value for each unit, where they are not one number.
    """
    units = np.full(count, -1)
    for number, block in enumerate(blocks):
        units[list(block)] = number
    others = units < 0
    units[others] = len(blocks) + np.arange(np.count_nonzero(others))
    return units
