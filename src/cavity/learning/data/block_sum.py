"""Sums of a function of blocks: over a part in the order of its blocks, on all devices."""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np

from cavity.learning.data.blocks import BlockLayout
from cavity.learning.data.training_data import StoredSites
from cavity.learning.engines.base import AbstractPartWork, Part
from cavity.learning.engines.kept import KeptBlocks
from cavity.numerics.tree import on_device, to_numpy
from cavity.numerics.types import PyTree

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class BlockSum(AbstractPartWork[T]):
    """The sum of a function of blocks over the blocks of a part.

    Attributes:
        program: the function, of a module: of the arguments, of the sites of a block, and of the
            block.
        arguments: the same for all blocks, with numpy arrays.
        layout: how rows become blocks.
        add: adds two values, of numpy arrays.
        sites: the rows' own sites; None for none.
    """

    program: Callable[..., Any]
    arguments: tuple[Any, ...]
    layout: BlockLayout
    add: Callable[[T, T], T]
    sites: StoredSites | None = None

    @property
    def reads_kept(self) -> bool:
        """True where it begins from sites that were found before."""
        return self.sites is not None and self.sites.name is not None

    def __call__(self, part: Part) -> T | None:
        """The sum, in numpy arrays; None for a part without rows.

        Raises:
            Lost: where sites are not in this process.
        """
        total: T | None = None
        for value in self._written(part):
            total = value if total is None else self.add(total, value)
        return total

    def _written(self, part: Part) -> Iterator[T]:
        """The values of blocks; the sites that come with them are kept with the part."""
        stored = self.sites
        if stored is None:
            yield from self._values(part)
            return
        for name in stored.forgotten:
            KeptBlocks(stored.fit, part.index, name).forget()
        if stored.written is None:
            yield from self._values(part)
            return
        kept = KeptBlocks(stored.fit, part.index, stored.written)
        with kept.begin() as file:
            for value, sites in self._values(part):
                file.write(_flat(sites).tobytes())
                yield value
        kept.end()

    def _values(self, part: Part) -> Iterator[Any]:
        """What the program gives for each block, in numpy arrays."""
        devices = jax.local_devices()
        several = len(devices) > 1
        placed = [on_device(self.arguments, d) if several else self.arguments for d in devices]
        waiting: deque[Any] = deque()
        for number, (sites, block) in enumerate(self._blocks(part)):
            place = number % len(devices)
            here = on_device((sites, block), devices[place]) if several else (sites, block)
            waiting.append(self.program(*placed[place], *here))
            if len(waiting) > len(devices):
                yield to_numpy(waiting.popleft())
        while waiting:
            yield to_numpy(waiting.popleft())

    def _blocks(self, part: Part) -> Iterator[tuple[PyTree, Any]]:
        """The blocks of a part with the sites of their rows."""
        stored, like = self.sites, None
        for number, block in enumerate(self.layout.blocks(part)):
            if stored is None:
                yield (), block
                continue
            like = to_numpy(stored.empty(self.arguments[0], block)) if like is None else like
            if stored.name is None:
                yield like, block
                continue
            found = KeptBlocks(stored.fit, part.index, stored.name).read(number, _flat(like))
            yield _as(like, found), block


def _flat(tree: PyTree) -> np.ndarray:
    """The numbers of a tree as one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def _as(like: PyTree, flat: np.ndarray) -> PyTree:
    """A vector as a tree of the same shapes as another."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([leaf.size for leaf in leaves])
    pieces = np.split(flat, ends[:-1])
    pairs = zip(pieces, leaves, strict=True)
    return structure.unflatten([piece.reshape(leaf.shape) for piece, leaf in pairs])
