"""Batches of rows, for tables larger than memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from numpy.typing import ArrayLike

from cavity.numerics.validation import check_whole

# Rows worked on at a time where nothing else is asked for.
LEAST, MOST = 4_096, 65_536
# Blocks among whose rows minibatches are shuffled.
BUFFER = 8

BatchSource = Iterable[object] | Callable[[], Iterable[object]]


@runtime_checkable
class HasShape(Protocol):
    """Arrays of any package, which batches are not."""

    @property
    def shape(self) -> tuple[int, ...]: ...


class Batch(NamedTuple):
    """Some rows: inputs (n, D), outputs (n,) or (n, P), and side data by name, (n,) each."""

    X: Any
    y: Any
    rows: Mapping[str, Any] | None = None


class Batches:
    """A table as batches of rows, read anew in every pass, to be fitted without loading it.

    Batches may have any sizes, none included; they are put together and cut into blocks of one
    size, so that one compiled program serves all of them. Every pass must give the same rows in
    the same order.

    Minibatches are drawn from some blocks at a time, so the rows should be in random order: a
    table that is sorted gives minibatches that are all alike.

    Args:
        source: what gives the batches, `(X, y)` or `(X, y, rows)` with side data by name: a list,
            any object that can be iterated over again, or a function without arguments that gives
            a fresh iterator.
        size: rows worked on at a time; None: as many as the largest batch has, but at least
            4,096 and at most 65,536.
        buffer: rows among which minibatches are shuffled; None: those of eight blocks.

    Raises:
        TypeError: for what cannot be iterated over, or only once.
        ValueError: for sizes below 1.

    Example:
        >>> import numpy as np
        >>> x = np.linspace(0.0, 1.0, 100)[:, None]
        >>> halves = Batches([(x[:50], x[:50, 0]), (x[50:], x[50:, 0])])
        >>> [len(batch.X) for batch in halves]
        [50, 50]
    """

    def __init__(
        self,
        source: object,
        *,
        size: int | None = None,
        buffer: int | None = None,
    ):
        if isinstance(source, Iterator):
            raise TypeError(
                f"batches are read several times over, and a {type(source).__name__} can be read "
                "only once: give a list, an object with __iter__, or the function that makes the "
                "generator, as in Batches(read) instead of Batches(read())"
            )
        if not callable(source) and not isinstance(source, Iterable):
            raise TypeError(
                "batches are an iterable of pairs (X, y), or a function that gives one; given "
                f"{type(source).__name__}"
            )
        for name, value in (("size", size), ("buffer", buffer)):
            if value is not None:
                check_whole(name, value, 1)
        self.source = cast(BatchSource, source)
        self.size, self.buffer = size, buffer

    def __iter__(self) -> Iterator[Batch]:
        source = self.source() if callable(self.source) else self.source
        for number, batch in enumerate(source, 1):
            if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
                raise TypeError(
                    f"batch {number}: a batch is a pair (X, y), or (X, y, rows) with side data; "
                    f"given {type(batch).__name__}"
                )
            yield Batch(*batch)


def refuse_side(rows: object) -> None:
    """Raises ValueError for side data that do not come with the batches."""
    if rows is not None:
        raise ValueError("side data of rows come with their batch: give (X, y, rows) as batches")


def as_batches(source: ArrayLike | Batches | BatchSource) -> Batches:
    """Batches from what was given in place of X and y.

    Raises:
        TypeError: for arrays, which need a y, and for what can be read only once.
    """
    if isinstance(source, Batches):
        return source
    if isinstance(source, HasShape):
        raise TypeError("y is missing: give X and y, or batches of rows in their place")
    return Batches(source)
