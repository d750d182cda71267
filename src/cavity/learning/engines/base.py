"""The one verb of learning from parts: apply a function to every part, and add the results."""

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from cavity.numerics.tree_sum import TreeSum, where_any

T = TypeVar("T")


class Part(NamedTuple):
    """A part of a table.

    Attributes:
        index: its place among all.
        name: what it is called in messages; empty where there is one.
        source: where its rows come from.
    """

    index: int
    name: str
    source: Any

    @property
    def prefix(self) -> str:
        """What messages about the part begin with."""
        return f"{self.name}: " if self.name else ""


class AbstractPartWork(abc.ABC, Generic[T]):
    """A function of a part that may need what a process has kept of it."""

    @abc.abstractmethod
    def __call__(self, part: Part) -> T | None:
        """What comes of a part; None for one without rows."""

    @property
    @abc.abstractmethod
    def reads_kept(self) -> bool:
        """True if it can be done only in the process that has done the part last."""


class AbstractEngine(abc.ABC):
    """Applies a function to every part of a table.

    The function is pure, so that it may be applied anywhere, twice if need be, and in any order:
    sums go along a tree that the number of parts decides, and have the same bits on every engine.
    For engines of several processes it is an object whose class and fields can be pickled.

    Sites of rows stay in the process that has worked on their part. An engine should give it the
    part again where an `AbstractPartWork` says so; where another gets it, all are found again.

    To implement:
        `each(work, parts)`.

    Attributes:
        processes: the number of processes that have done a part.
        retries: how often a part was done again, because its process was lost, failed or was late.
    """

    processes: int = 1
    retries: int = 0

    @abc.abstractmethod
    def each(self, work: Callable[[Part], T], parts: Sequence[Part]) -> Iterator[tuple[int, T]]:
        """The results with the places of their parts, as they are done."""

    def sum(
        self, work: Callable[[Part], T | None], parts: Sequence[Part], add: Callable[[T, T], T]
    ) -> T | None:
        """The sum of the results of all parts; None where there are none.

        Args:
            work: what is computed of a part; None for one without rows.
            parts: all of them.
            add: adds two results; those of earlier parts come first.
        """
        tree = TreeSum(len(parts), where_any(add))
        for index, value in self.each(work, parts):
            tree.put(index, value)
        return tree.total


class InProcess(AbstractEngine):
    """One part after the other, in this process."""

    def each(self, work: Callable[[Part], T], parts: Sequence[Part]) -> Iterator[tuple[int, T]]:
        for part in parts:
            yield part.index, work(part)
