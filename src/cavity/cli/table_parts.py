"""A table as numbers, part by part, and what is said of it."""

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from cavity.cli.session import Session
from cavity.columns.frames import DataFrame
from cavity.columns.warnings import EncodingWarnings, refuse_empty
from cavity.learning.engines.base import AbstractEngine, InProcess, Part
from cavity.numerics.text import plural
from cavity.numerics.tree_sum import where_any
from cavity.tables.batched import (
    ROWS,
    LongTable,
    WholeTable,
    long_table,
    no_rows,
    pieces_of,
    rows_at_a_time,
    table_files,
)
from cavity.tables.files import own_column
from cavity.tables.schema import Encoded, Schema, encode, need_column
from cavity.tables.table_model import TableModel

T = TypeVar("T")

# The column that names the file, where a table has several.
FILE = "file"
# What is made of rows as numbers, and of their columns that are kept.
Function = Callable[[Encoded, dict[str, Any]], T]


@dataclasses.dataclass(frozen=True)
class OnRows(Generic[T]):
    """What a function makes of each batch of a part, which can be done in any process.

    Attributes:
        function: of the batch.
        schema: of the model.
        keep: columns that are wanted as they are.
        reading: what else `encode` is to know.
    """

    function: Function[T]
    schema: Schema
    keep: tuple[str, ...]
    reading: dict[str, Any]

    def batches(self, part: Part) -> Iterator[tuple[EncodingWarnings, T]]:
        """For each batch what was noticed, and what the function makes of it."""
        for first, table in part.source.parts():
            with part.source.blamed():
                encoded, kept = self._encoded(table, first)
                made = self.function(encoded, file_column(part.source, table.height) | kept)
            yield encoded.noticed, made

    def __call__(self, part: Part) -> list[tuple[EncodingWarnings, T]]:
        """All batches of a part."""
        return [*self.batches(part)]

    def _encoded(self, table: DataFrame, first: int | None) -> tuple[Encoded, dict[str, Any]]:
        for name in self.keep:
            need_column(table.columns, name)
        encoded = encode(table, self.schema, first=first, **self.reading)
        return encoded, {name: table[name] for name in self.keep}


def file_column(source: LongTable | WholeTable, rows: int) -> dict[str, Any]:
    """A column with the name of the file, of a table of several."""
    return {FILE: [str(source.path)] * rows} if source.several else {}


@dataclasses.dataclass(frozen=True)
class SumOfRows(Generic[T]):
    """The sum of what a function makes of the batches of a part, which have rows.

    Attributes:
        rows: the function of batches.
        add: adds two results, those of earlier rows first.
    """

    rows: OnRows[T | None]
    add: Callable[[T, T], T]

    def __call__(self, part: Part) -> tuple[EncodingWarnings, int, T | None]:
        """What was noticed, the number of batches, and the sum; None without rows."""
        total: tuple[EncodingWarnings, int, T | None] = (EncodingWarnings(), 0, None)
        for noticed, made in self.rows.batches(part):
            total = self.both(total, (noticed, 1, made))
        return total

    def both(
        self, a: tuple[EncodingWarnings, int, T | None], b: tuple[EncodingWarnings, int, T | None]
    ) -> tuple[EncodingWarnings, int, T | None]:
        """The results of both."""
        return a[0] + b[0], a[1] + b[1], where_any(self.add)(a[2], b[2])


class TableParts:
    """The numbers that a model takes from a table, read anew in every pass.

    Args:
        given: the table: a file, or a pattern of several.
        schema: of the model.
        rows: that are read at a time; None for all of them, unless they are many.
        engine: what works on parts of the table; None for this process, in their order.
        keep: columns that are wanted as they are.
        **reading: what else `encode` is to know: `drop_missing`, `need_targets`, `weight_column`.

    Attributes:
        files: of the table.
        parts: the pieces that processes work on.
        noticed: what was noticed in the last whole pass.
        count: the number of batches in it.
    """

    def __init__(
        self,
        given: str,
        schema: Schema,
        rows: int | None,
        *,
        engine: AbstractEngine | None = None,
        keep: Sequence[str] = (),
        **reading: Any,
    ):
        self.given, self.files, self.engine = given, table_files(given), engine
        self.size = batch_size(self.files, rows, engine)
        if self.size is None:
            self.parts = (Part(0, "", WholeTable(self.files[0])),)
        else:
            self.parts = parts_of(pieces_of(self.files, self.size))
        self.schema, self.keep, self.reading = schema, tuple(keep), reading
        if FILE in self.keep and len(self.files) > 1:
            raise own_column(FILE)
        self.noticed, self.count = EncodingWarnings(), 0

    def each(self, function: Function[T]) -> Iterator[T]:
        """What a function makes of each batch, in the order of rows.

        Args:
            function: it can be pickled, for engines of several processes.

        Raises:
            DataError: for a column that is not there, and cells that cannot be used.
        """
        noticed, count = EncodingWarnings(), 0
        work = OnRows(function, self.schema, self.keep, self.reading)
        for new, made in self._in_order(work):
            noticed, count = noticed + new, count + 1
            yield made
        self._note(noticed, count)

    def sum(self, function: Function[T | None], add: Callable[[T, T], T]) -> T | None:
        """The sum of what a function makes of batches, None for those without rows.

        Args:
            function: it can be pickled, for engines of several processes.
            add: adds two results, those of earlier rows first.

        Raises:
            DataError: for a column that is not there, and cells that cannot be used.
        """
        rows = OnRows(function, self.schema, self.keep, self.reading)
        work, engine = SumOfRows(rows, add), self.engine or InProcess()
        found = engine.sum(work, self.parts, work.both)
        assert found is not None
        self._note(*found[:2])
        return found[2]

    def _in_order(self, work: OnRows[T]) -> Iterator[tuple[EncodingWarnings, T]]:
        if self.engine is None:
            for part in self.parts:
                yield from work.batches(part)
            return
        waiting: dict[int, list[tuple[EncodingWarnings, T]]] = {}
        following = 0
        for index, found in self.engine.each(work, self.parts):
            waiting[index] = found
            while following in waiting:
                yield from waiting.pop(following)
                following += 1

    def _note(self, noticed: EncodingWarnings, count: int) -> None:
        if not noticed.rows:
            raise no_rows(self.given)
        refuse_empty(noticed)
        self.noticed, self.count = noticed, count

    @property
    def record(self) -> dict[str, Any]:
        """Entries of `--json` on how the table was read, and what was noticed."""
        batches = {} if self.size is None else {"batches": self.count}
        several = parts_record(len(self.files), len(self.parts), self.engine)
        return batches | several | self.noticed.record


def batch_size(
    files: Sequence[str], asked: int | None, engine: AbstractEngine | None
) -> int | None:
    """Rows of a table that are read at a time; None for all of them.

    Args:
        files: of the table.
        asked: the number that was asked for; None for none.
        engine: what works on its parts; None for this process.
    """
    if asked is None and (engine is not None or len(files) > 1):
        return ROWS
    return rows_at_a_time(files[0], asked)


def parts_of(pieces: Sequence[LongTable]) -> tuple[Part, ...]:
    """Pieces of a table as parts; the only one has no name."""
    several = len(pieces) > 1
    return tuple(Part(i, piece.name * several, piece) for i, piece in enumerate(pieces))


def parts_record(files: int, parts: int, engine: AbstractEngine | None) -> dict[str, int]:
    """Entries of `--json` where there are several files, or an engine was asked for."""
    if engine is None and files == 1:
        return {}
    at_work = engine or InProcess()
    return {"processes": at_work.processes, "parts": parts, "retries": at_work.retries}


@dataclasses.dataclass(frozen=True)
class RowsJudged:
    """Sums of which the scores of predictions are made.

    Attributes:
        fitted: the model.
    """

    fitted: TableModel

    def __call__(self, encoded: Encoded, kept: Mapping[str, Any]) -> Any:
        """Of some rows; None where there are none."""
        return self.fitted.judged(encoded) if len(encoded.X) else None


def scores(fitted: TableModel, table: TableParts) -> dict[str, Any]:
    """Scores of the predictions of a table, as `TableModel.metrics`."""
    return fitted.metrics_of(table.sum(RowsJudged(fitted), operator.add))


def note_index(session: Session, given: str) -> None:
    """Says where a table has the index of a data frame, which is no column."""
    for path in table_files(given):
        if long_table(path, 1).index:
            session.note(f"{path}: the first column, without a name, is an index and left out")


def report_warnings(
    session: Session, name: str, noticed: EncodingWarnings, fate: str = "left out"
) -> None:
    """Passes on what was noticed in a table, and the fate of incomplete rows."""
    for warning in noticed.warnings:
        session.warn(f"{name}: {warning}")
    missing = noticed.rows - noticed.kept
    if missing:
        rows = plural(noticed.rows, "row")
        session.warn(f"{name}: {missing} of {rows} {fate}: a cell is missing")
