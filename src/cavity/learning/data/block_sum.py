"""Sums of a function of blocks: over a part in the order of its blocks, on all devices."""

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax

from cavity.learning.data.blocks import BlockLayout
from cavity.learning.engines.base import Part
from cavity.numerics.tree import on_device, to_numpy
from cavity.numerics.tree_sum import added

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class BlockSum(Generic[T]):
    """The sum of a function of blocks over the blocks of a part.

    Attributes:
        program: the function, of a module: of the arguments, then of a block.
        arguments: the same for all blocks, with numpy arrays.
        layout: how rows become blocks.
    """

    program: Callable[..., T]
    arguments: tuple[Any, ...]
    layout: BlockLayout

    def __call__(self, part: Part) -> T | None:
        """The sum, in numpy arrays; None for a part without rows."""
        devices = jax.local_devices()
        several = len(devices) > 1
        placed = [on_device(self.arguments, d) if several else self.arguments for d in devices]
        total: T | None = None
        waiting: deque[T] = deque()
        for number, block in enumerate(self.layout.blocks(part)):
            place = number % len(devices)
            here = on_device(block, devices[place]) if several else block
            waiting.append(self.program(*placed[place], here))
            if len(waiting) > len(devices):
                total = both(total, to_numpy(waiting.popleft()))
        for value in waiting:
            total = both(total, to_numpy(value))
        return total


def both(a: T | None, b: T | None) -> T | None:
    """The sum of what parts give, of which each may have no rows."""
    if a is None or b is None:
        return b if a is None else a
    return added(a, b)
