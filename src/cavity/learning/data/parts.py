"""Tables in parts, each of which one process works on at a time."""

from collections.abc import Iterable, Iterator
from typing import Any

from cavity.learning.data.batches import Batches, BatchSource, as_batches
from cavity.learning.engines.base import Part
from cavity.numerics.validation import check_whole


class Parts:
    """A table in parts: files, or pieces of them, with batches of rows in each.

    Sums over rows are sums over parts, in an order that the parts alone decide, so that a result
    has the same bits however many processes take part. Blocks of rows do not cross the borders of
    parts: each should have some hundred thousand rows. A part without rows is no matter.

    Args:
        parts: the parts, each a `Batches` or what one is made of: a list of pairs (X, y), an
            object that can be iterated over again, or a function that gives a fresh iterator. For
            engines of several processes they can be pickled: functions of a module, not lambdas.
        names: what parts are called in messages, such as names of files; None for "part 1" and
            so on.
        size: rows worked on at a time; None: as many as the largest batch has, but at least
            4,096 and at most 65,536.
        buffer: rows among which minibatches are shuffled; None: those of eight blocks.

    Raises:
        TypeError: for what is no batches, or can be read only once.
        ValueError: for no parts, sizes below 1, and names that are not one for each part.

    Example:
        >>> import numpy as np
        >>> x = np.linspace(0.0, 1.0, 100)[:, None]
        >>> halves = Parts([[(x[:50], x[:50, 0])], [(x[50:], x[50:, 0])]])
        >>> len(halves)
        2
    """

    def __init__(
        self,
        parts: Iterable[Batches | BatchSource],
        *,
        names: Iterable[str] | None = None,
        size: int | None = None,
        buffer: int | None = None,
    ):
        sources = [as_batches(source) for source in parts]
        if not sources:
            raise ValueError("a table has one part at least, none was given")
        for name, value in (("size", size), ("buffer", buffer)):
            if value is not None:
                check_whole(name, value, 1)
        numbered = (f"part {number}" for number in range(1, len(sources) + 1))
        called = list(numbered if names is None else names)
        if len(set(called)) != len(sources) or len(called) != len(sources):
            raise ValueError(
                f"names are one for each of {len(sources)} parts, all different; given {called}"
            )
        pairs = enumerate(zip(called, sources, strict=True))
        self.parts = tuple(Part(i, name, source) for i, (name, source) in pairs)
        self.size, self.buffer = size, buffer

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Any]:
        """The batches of all parts, one after the other."""
        return (batch for part in self.parts for batch in part.source)


def as_parts(batches: Batches | BatchSource | Parts) -> Parts:
    """Batches, or what they are made of, as a table of one part.

    Raises:
        TypeError: for what is no batches, or can be read only once.
    """
    if isinstance(batches, Parts):
        return batches
    own = as_batches(batches)
    return Parts([own], names=[""], size=own.size, buffer=own.buffer)
