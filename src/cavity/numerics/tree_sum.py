"""Sums of the parts of a table, in one order whoever computes them and when."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import jax
import numpy as np

T = TypeVar("T")


def added(a: T, b: T) -> T:
    """The sum of two trees of numpy arrays, leaf by leaf."""
    return jax.tree.map(np.add, a, b)


def where_any(add: Callable[[T, T], T]) -> Callable[[T | None, T | None], T | None]:
    """An addition for terms some of which are None, which add nothing."""

    def joined(a: T | None, b: T | None) -> T | None:
        if a is None or b is None:
            return b if a is None else a
        return add(a, b)

    return joined


def summed(values: Iterable[T | None], add: Callable[[T, T], T]) -> T | None:
    """The sum of values that come in order, with the bits of `TreeSum`, however many come.

    Args:
        values: the terms; None adds nothing.
        add: adds two; need not commute.

    Returns:
        The sum; None where nothing was added.
    """
    joined = where_any(add)
    # Sums that are still to be added, of numbers of terms that are falling powers of two.
    waiting: list[tuple[int, T | None]] = []
    for value in values:
        total, terms = value, 1
        while waiting and waiting[-1][0] == terms:
            total, terms = joined(waiting.pop()[1], total), 2 * terms
        waiting.append((terms, total))
    found = None
    while waiting:
        found = joined(waiting.pop()[1], found)
    return found


class TreeSum(Generic[T]):
    """The sum of values that arrive in any order: the same bits in each.

    They are added along a binary tree: neighbours in pairs, then neighbours of these, and so on;
    one that has no neighbour goes up as it is. No more wait than have no sum with others yet.

    Args:
        count: how many there will be.
        add: adds two; need not commute.

    Raises:
        ValueError: for no values.
    """

    def __init__(self, count: int, add: Callable[[T, T], T]):
        if count < 1:
            raise ValueError(f"a sum has one term at least, given {count}")
        self.count, self.add = count, add
        self.waiting: dict[tuple[int, int], T] = {}
        self.arrived: set[int] = set()

    def put(self, index: int, value: T) -> None:
        """Adds a value at its place; one that has come before is left out."""
        if index in self.arrived:
            return
        self.arrived.add(index)
        level, width = 0, self.count
        while width > 1:
            other = index ^ 1
            if other < width:
                if (level, other) not in self.waiting:
                    break
                known = self.waiting.pop((level, other))
                value = self.add(value, known) if index < other else self.add(known, value)
            level, index, width = level + 1, index // 2, (width + 1) // 2
        self.waiting[level, index] = value

    @property
    def total(self) -> T:
        """The sum.

        Raises:
            ValueError: where values are still to come.
        """
        if len(self.arrived) < self.count:
            raise ValueError(f"{len(self.arrived)} of {self.count} terms have come")
        (value,) = self.waiting.values()
        return value
