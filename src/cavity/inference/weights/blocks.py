"""Blocks: sets of weights that one row of a prior sees together."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.weights.block_sites import WeightBlockSites
from cavity.numerics.linalg import cholesky_and_inverse
from cavity.numerics.types import Array, Float, Int

Pair = tuple[Array, Array]


class Blocks(eqx.Module):
    """Positions of the weights in each block.

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
    def from_columns(cls, blocks: Sequence[Sequence[int]], dtype: jnp.dtype) -> "Blocks":
        """The blocks of these columns, none of them empty."""
        width = max(map(len, blocks))
        index = np.array([[*block, *[block[0]] * (width - len(block))] for block in blocks])
        present = np.array([np.arange(width) < len(block) for block in blocks])
        return cls(jnp.asarray(index), jnp.asarray(present, dtype), int(present.sum()))

    def cavities(
        self, shift: Float[Array, "P p"], precision: Float[Array, "P p p"], sites: WeightBlockSites
    ) -> tuple[Float[Array, "B P W"], Float[Array, "B P W W"]]:
        r"""Shifts and precisions of the weights of each block, without its own site.

        All other weights are integrated out: first those in no block, then one half of the blocks
        for the other, and so on in each half. The site of a block is nowhere added and taken
        back. Empty places have precision one and shift zero.

        Args:
            shift: of all weights, without the sites of blocks.
            precision: the same.
            sites: the sites of blocks.
        """
        each = jax.vmap(self._cavities, in_axes=(0, 0, 1, 1), out_axes=(1, 1))
        return each(shift, precision, sites.shift, sites.precision)

    def _cavities(self, h: Array, A: Array, site_shift: Array, site_precision: Array) -> Pair:
        """The same for one output: sites (B, W) and (B, W, W)."""
        count, width = self.index.shape
        inside = jnp.zeros(A.shape[0], bool).at[self.index].set(True)
        others = jnp.nonzero(~inside, size=A.shape[0] - self.count)[0]
        place, present = self.index.reshape(-1), self.present.reshape(-1)
        own_h, own_A = h[place], A[place[:, None], place]
        if others.shape[0]:
            eliminated = A[others[:, None], others], h[others]
            own_h, own_A = marginalised(own_h, own_A, A[others[:, None], place], *eliminated)
        # halves of halves: as many blocks as a power of two, the last of them empty
        padding = 2 ** math.ceil(math.log2(count)) - count
        rest = jnp.broadcast_to(jnp.eye(width, dtype=A.dtype), (padding, width, width))
        empty = (1.0 - self.present)[:, :, None] * jnp.eye(width, dtype=A.dtype)
        site_precision = jnp.concatenate([self._pairs * site_precision + empty, rest])
        site_shift = jnp.pad(self.present * site_shift, ((0, padding), (0, 0)))
        own_h = jnp.pad(present * own_h, (0, padding * width))
        own_A = jnp.pad(present[:, None] * own_A * present, (0, padding * width))
        found_h, found_A = leave_one_block_out(own_h, own_A, site_shift, site_precision)
        return found_h[:count], found_A[:count] + empty

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


def marginalised(h: Array, A: Array, across: Array, other: Array, other_h: Array) -> Pair:
    r"""Shift and precision of some weights, when others are integrated out.

    Args:
        h: shift of the weights that stay.
        A: their precision.
        across: precisions between the others and them.
        other: precision of the others.
        other_h: their shift.
    """
    unit = 1.0 / jnp.sqrt(jnp.diagonal(other))
    root = cholesky_and_inverse(unit[:, None] * other * unit)[1] * unit
    seen = root @ across
    return h - seen.T @ (root @ other_h), A - seen.T @ seen


def leave_one_block_out(
    h: Float[Array, " n"],
    A: Float[Array, "n n"],
    site_shift: Float[Array, "B W"],
    site_precision: Float[Array, "B W W"],
) -> tuple[Float[Array, "B W"], Float[Array, "B W W"]]:
    """The shift and precision of each block without its site, all other blocks integrated out.

    Args:
        h: shifts of the weights of all blocks, without their sites.
        A: their precision, without the sites.
        site_shift: the sites, of a power of two of blocks.
        site_precision: the same.
    """
    width = site_shift.shape[1]
    parts = h[None], A[None], site_shift[None], site_precision[None]
    for _ in range(int(math.log2(site_shift.shape[0]))):
        parts = jax.vmap(_halves)(*parts)
        parts = tuple(x.reshape(-1, *x.shape[2:]) for x in parts)
    return parts[0].reshape(-1, width), parts[1].reshape(-1, width, width)


def _halves(h: Array, A: Array, site_shift: Array, site_precision: Array) -> tuple[Array, ...]:
    """Each half of the blocks, when the other one is integrated out."""
    size, number = h.shape[0] // 2, site_shift.shape[0] // 2
    first, second = slice(size), slice(size, None)
    sites = [
        (site_shift[part], site_precision[part]) for part in (slice(number), slice(number, None))
    ]
    pairs = []
    for stays, leaves, (p, P) in ((first, second, sites[1]), (second, first, sites[0])):
        other = A[leaves, leaves] + jax.scipy.linalg.block_diag(*P)
        eliminated = A[leaves, stays], other, h[leaves] + p.reshape(-1)
        pairs.append(marginalised(h[stays], A[stays, stays], *eliminated))
    found = tuple(jnp.stack(each) for each in zip(*pairs, strict=True))
    return (*found, *(jnp.stack(each) for each in zip(*sites, strict=True)))


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
