"""Rows of a long table as numbers: encoded once in each process, then read back from a file."""

import dataclasses
import errno
import hashlib
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cavity.inference.graph.rows import WEIGHT
from cavity.learning.data.batches import Batch
from cavity.learning.engines.kept import kept_folder
from cavity.persistence.atomic_file import reason
from cavity.persistence.errors import DataError
from cavity.tables.batched import LongTable
from cavity.tables.schema import Encoded, Schema, encode


class Passes:
    """Passes over a table, as this process sees them.

    In another process, where a pickle of it arrives, nobody watches.

    Attributes:
        rows: of the table.
        begun: passes begun.
        watch: called with the rows done, before each batch of a pass.
    """

    def __init__(self, rows: int = 0):
        self.rows, self.begun = rows, 0
        self.watch: Callable[[int], None] = _nobody

    def __reduce__(self) -> tuple[type["Passes"], tuple[int]]:
        return type(self), (self.rows,)


def _nobody(_: int) -> None:
    """Nobody watches."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """How cells become numbers.

    Attributes:
        schema: what the columns are.
        drop_missing: whether rows with a missing cell are left out.
        weight_column: of weights of the rows; None for none.
    """

    schema: Schema
    drop_missing: bool
    weight_column: str | None

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the side data of the rows."""
        names = ("noise_variance", "exposure", WEIGHT)
        columns = (self.schema.noise_column, self.schema.exposure_column, self.weight_column)
        return tuple(n for n, column in zip(names, columns, strict=True) if column is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        schema = self.schema
        named = [*(c.name for c in (*schema.inputs, *schema.targets))]
        named += [schema.noise_column, schema.exposure_column, self.weight_column]
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return len(self.schema.features) + len(self.schema.targets) + len(self.sides)

    def encoded(self, piece: LongTable) -> Iterator[Encoded]:
        """The rows of a piece of a table as numbers, part by part.

        Raises:
            DataError: naming row and column of a cell that cannot be used.
        """
        options: dict[str, Any] = {"drop_missing": self.drop_missing}
        options |= {"weight_column": self.weight_column}
        for first, part in piece.parts(*self.columns):
            with piece.blamed():
                encoded = encode(part, self.schema, first=first, **options)
            yield encoded

    def table_of(self, part: Encoded) -> np.ndarray:
        """Inputs, targets and side data beside each other, (N, width)."""
        assert part.y is not None
        side = [part.side_and_weight[name][:, None] for name in self.sides]
        return np.ascontiguousarray(np.hstack([part.X, part.y, *side]))

    def batch_of(self, table: np.ndarray, places: np.ndarray | None = None) -> Batch:
        """Such rows as inputs, outputs and side data.

        Args:
            table: the rows, (N, width).
            places: by the place of a class, its place among those that there are; None for none.
        """
        inputs = len(self.schema.features)
        end = inputs + len(self.schema.targets)
        y = table[:, inputs:end]
        if places is not None:
            y = places[y.astype(int)]
        rows = dict(zip(self.sides, table[:, end:].T, strict=True)) or None
        return Batch(table[:, :inputs], y[:, 0] if y.shape[1] == 1 else y, rows)


@dataclasses.dataclass(frozen=True, eq=False)
class RowSource:
    """The rows of a piece of a table, which one process encodes once and reads back in each pass.

    The numbers, 8 bytes each, are in a file of the process, and go with it.

    Attributes:
        fit: what the numbers belong to; different for all fits.
        piece: the rows in their file.
        reading: how they become numbers.
        digest: a hash of these, from the first pass over them.
        before: rows of the table before the piece.
        passes: told of every pass in the process that made it.
        places: by the place of a class, its place among those that there are; None for none.
    """

    fit: str
    piece: LongTable
    reading: Reading
    digest: str
    before: int
    passes: Passes
    places: np.ndarray | None = None

    def __iter__(self) -> Iterator[Batch]:
        """One pass, in batches.

        Raises:
            DataError: where the file has changed since the first pass.
            OSError: if there is no room for the numbers.
        """
        path, done = numbers_file(self.fit, self.digest), 0
        if not path.exists():
            _, found = written(self.fit, self.reading, self.reading.encoded(self.piece))
            if found != self.digest:
                numbers_file(self.fit, found).unlink(missing_ok=True)
                raise DataError(
                    f"{self.piece.path} has changed since the fit began: leave the table as it "
                    "is, or fit again",
                    kind="io",
                )
        width, watched = self.reading.width, self.passes
        watched.begun += self.before == 0
        with path.open("rb") as file:
            while len(rows := np.fromfile(file, float, width * self.piece.rows)):
                watched.watch(self.before + done)
                table = rows.reshape(-1, width)
                done += len(table)
                yield self.reading.batch_of(table, self.places)


def numbers_file(fit: str, digest: str) -> Path:
    """The file of the numbers of a fit with this hash."""
    return kept_folder() / f"{fit}-rows-{digest}"


def written(fit: str, reading: Reading, parts: Iterator[Encoded]) -> tuple[int, str]:
    """Writes numbers to a file of this process; their rows and their hash.

    Raises:
        OSError: if there is no room for them.
    """
    begun, rows = numbers_file(fit, f"{uuid.uuid4().hex}.begun"), 0
    digest = hashlib.sha256()
    try:
        with begun.open("wb") as file:
            for part in parts:
                table = reading.table_of(part)
                rows += len(table)
                digest.update(table.data)
                _keep(file, table)
        found = digest.hexdigest()
        begun.replace(numbers_file(fit, found))
    finally:
        begun.unlink(missing_ok=True)
    return rows, found


def append(file: BinaryIO, table: np.ndarray) -> None:
    """Writes rows to the end of a file."""
    file.write(table.data)
    file.flush()


def _keep(file: BinaryIO, table: np.ndarray) -> None:
    """The same, with what to do where there is no room."""
    try:
        append(file, table)
    except OSError as error:
        raise OSError(
            error.errno or errno.EIO,
            f"the numbers of a long table are kept in a temporary file in "
            f"{tempfile.gettempdir()}, and it cannot be written: {reason(error)}; make room, "
            "or name another folder by the environment variable TMPDIR",
        ) from None
