"""Blocks of one shape from the batches of a part of a table."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from cavity.inference.graph.rows import WEIGHT, Rows
from cavity.learning.data.arrays import check_arrays, pad_rows, to_device
from cavity.learning.data.batches import Batch
from cavity.learning.data.fingerprint import checksum
from cavity.learning.data.training_data import Data
from cavity.learning.data.validation import check_outputs
from cavity.learning.engines.base import Part
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.text import plural

# Of numbers by which passes are compared.
MODULUS = 2**64
# Input columns, output columns, names of side data, and the type of numbers.
Columns = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class BlockLayout:
    """How the rows of parts become blocks of one shape.

    Attributes:
        size: rows of a block.
        power: the power of all rows.
        single: whether outputs are vectors.
        filler: an observed value of each output, (P,), which stands for missing ones.
        shared: whether outputs are missing in whole rows only.
        missing: "error" or "skip".
        lengths: rows of each part in the first pass, those without any output left out.
        checksums: of these rows.
    """

    size: int
    power: float
    single: bool
    filler: np.ndarray
    shared: bool
    missing: str
    lengths: tuple[int, ...]
    checksums: tuple[int, ...]

    @property
    def n_blocks(self) -> int:
        """The number of blocks of all parts."""
        return sum(-(-length // self.size) for length in self.lengths)

    def blocks(self, part: Part) -> Iterator[Data]:
        """One pass over the rows of a part; the last block is padded.

        Raises:
            ValueError: where it gives other rows than in the first pass.
        """
        for rows in cut(self.rows(part), self.size):
            yield self.data(pad_rows(rows, self.size), len(rows.x))

    def rows(self, part: Part) -> Iterator[Rows]:
        """One pass over the rows of a part, batch by batch."""
        count, known, found = 0, self.lengths[part.index], 0
        for rows, _ in checked(part, self.missing):
            found += row_checksum(rows, count)
            count += len(rows.x)
            yield rows
        if count != known:
            raise ValueError(
                f"{part.prefix}the batches gave {plural(known, 'row')} in the first pass and "
                f"{count} in a later one: they must give the same rows every time"
            )
        if found % MODULUS != self.checksums[part.index]:
            raise ValueError(
                f"{part.prefix}the batches gave other numbers than in the first pass: they must "
                "give the same rows every time"
            )

    def data(self, rows: Rows, length: int) -> Data:
        """Rows as data of the shapes of all."""
        presence = np.asarray(rows.presence)
        if not self.shared:
            presence = np.ascontiguousarray(np.broadcast_to(presence, rows.y.shape))
        y = np.where(presence > 0.0, rows.y, self.filler)
        laid = dataclasses.replace(rows, y=y, presence=presence)
        return to_device(laid, self.power, single=self.single, length=length)


def checked(
    part: Part, missing: str, likelihood: AbstractLikelihood | None = None
) -> Iterator[tuple[Rows, bool]]:
    """Every batch that has rows, checked, and whether its y was a vector."""
    shape, count = None, 0
    for number, batch in enumerate(_read(part), 1):
        try:
            arrays = _arrays(batch, missing)
            if arrays is None:
                continue
            rows, single = arrays
            if likelihood is not None:
                check_outputs(likelihood, Data(rows, 0.0, len(rows.x), single))
            columns = columns_of(rows)
            if shape is not None and columns != shape:
                raise ValueError(
                    f"it has other {difference(columns, shape, 'the batches before it')}"
                )
        except (TypeError, ValueError) as error:
            whole = "the part" if part.name else "all"
            where = f"{part.prefix}batch {number}, whose index 0 is row {count} of {whole}"
            raise type(error)(f"{where}: {error}") from None
        shape, count = columns, count + len(rows.x)
        yield rows, single


def _read(part: Part) -> Iterator[Batch]:
    """The batches of a part; errors of what reads them have a note that names it."""
    try:
        yield from part.source
    except Exception as error:
        if part.name:
            error.add_note(f"Raised while {part.name} was read")
        raise


def _arrays(batch: Batch, missing: str) -> tuple[Rows, bool] | None:
    """The arrays of a batch, rows without any output left out.

    None where none are left, or all have weight 0.
    """
    X, y = np.asarray(batch.X), np.asarray(batch.y)
    side = dict(batch.rows or {})
    if len(np.atleast_1d(X)) == 0 and len(np.atleast_1d(y)) == 0:
        return None
    if missing == "skip" and y.dtype.kind == "f" and X.shape[:1] == y.shape[:1]:
        observed = ~np.all(np.isnan(y.reshape(len(y), -1)), axis=1)
        if not np.any(observed):
            return None
        if not np.all(observed):
            X, y = X[observed], y[observed]
            side = {name: np.asarray(values)[observed] for name, values in side.items()}
    if WEIGHT in side and np.all(np.asarray(side[WEIGHT]) == 0.0):
        return None
    return check_arrays(X, y, side, missing)


def row_checksum(rows: Rows, start: int) -> int:
    """A number that tells whether rows are those of another pass, but for multiples of MODULUS.

    Args:
        rows: the rows.
        start: the place of the first of them in their part.
    """
    side = (np.asarray(rows.side[name]) for name in sorted(rows.side))
    return checksum((np.asarray(a) for a in (rows.x, rows.y, rows.presence, *side)), start)


def columns_of(rows: Rows) -> Columns:
    """What must be alike in all batches and parts."""
    return rows.x.shape[1], rows.y.shape[1], sorted(rows.side), rows.x.dtype


def difference(columns: Columns, before: Columns, others: str) -> str:
    """The first difference between columns, in words."""
    names = ("input columns", "output columns", "side data", "numbers")
    pairs = zip(names, columns, before, strict=True)
    name, value, wanted = next(pair for pair in pairs if pair[1] != pair[2])
    return f"{name} than {others}: {value}, not {wanted}"


def joined(parts: list[Rows]) -> Rows:
    """Rows one after another; if some share the presence of their outputs, it is unshared."""
    if len(parts) == 1:
        return parts[0]
    if len({rows.presence.shape[1] for rows in parts}) > 1:
        parts = [
            dataclasses.replace(r, presence=np.broadcast_to(np.asarray(r.presence), r.y.shape))
            for r in parts
        ]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def row_range(rows: Rows, start: int, end: int) -> Rows:
    """Some consecutive rows."""
    return jax.tree.map(lambda a: a[start:end], rows)


def cut(parts: Iterable[Rows], size: int) -> Iterator[Rows]:
    """The same rows in the same order, `size` at a time; the last ones may be fewer."""
    waiting: list[Rows] = []
    count = 0
    for rows in parts:
        waiting.append(rows)
        count += len(rows.x)
        if count < size:
            continue
        together, whole = joined(waiting), count - count % size
        for start in range(0, whole, size):
            yield row_range(together, start, start + size)
        waiting, count = [row_range(together, whole, count)], count - whole
    if count:
        yield joined(waiting)
