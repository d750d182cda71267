"""Tables that are read part by part, because they are too large for memory."""

import contextlib
import dataclasses
import errno
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cavity.columns.frames import DataFrame, LazyFrame
from cavity.numerics.memory import memory
from cavity.numerics.text import quoted
from cavity.persistence.atomic_file import check_regular, reason
from cavity.persistence.errors import DataError
from cavity.tables.files import INDEX, csv_header, ending, not_parquet, read_table, why_no_csv

# Rows read at a time.
ROWS = 65_536
# Rows of a piece of a parquet file, on which one process works at a time.
PIECE = 4 * ROWS
# A table counts as large when its cells would take more than this share of the memory: reading,
# encoding and learning hold several copies.
SHARE = 1 / 16


def rows_at_a_time(path: str | Path, asked: int | None = None) -> int | None:
    """Number of rows of a table to read at a time; None to read all of it.

    The number asked for, or `ROWS` where the table is large. Errors of a file are left to its
    reader.
    """
    if asked is not None:
        return asked
    with contextlib.suppress(DataError, OSError):
        return ROWS if cell_bytes(Path(path)) > SHARE * memory() else None
    return None


def cell_bytes(path: Path) -> float:
    """Memory for the cells of a table, roughly: a csv its size, others 8 bytes each."""
    check_regular(path)
    if ending(path) == ".csv":
        return float(path.stat().st_size)
    with _readable(path):
        return 8.0 * len(_scan(path).collect_schema()) * _parquet_rows(path)
    return 0.0


def _parquet_rows(path: Path) -> int:
    import polars as pl

    return _scan(path).select(pl.len()).collect().item()


@dataclasses.dataclass(frozen=True)
class LongTable:
    """A table, or a piece of one, that is read `rows` rows at a time, as often as need be.

    Attributes:
        path: a .csv or .parquet file.
        rows: of a part.
        columns: the names of all columns.
        separator: between the cells of a csv file.
        index: whether the file has the index of a data frame too, which is no column.
        start: rows of the file before the piece.
        length: rows of the piece; None for all that follow.
        several: whether the table has other files: messages name this one, which may be empty.
        place: where processes of other folders find the file; None for `path`.
    """

    path: Path
    rows: int
    columns: tuple[str, ...]
    separator: str = ","
    index: bool = False
    start: int = 0
    length: int | None = None
    several: bool = False
    place: Path | None = None

    @property
    def name(self) -> str:
        """The file, and the rows of it, for messages."""
        if self.length is None:
            return str(self.path)
        return f"{self.path}, rows {self.start + 1} to {self.start + self.length}"

    def parts(self, *columns: str) -> Iterator[tuple[int, DataFrame]]:
        """One pass: for each part the number of rows of the file before it, and the part.

        Args:
            *columns: those to be read; all without any.

        Raises:
            DataError: if the file cannot be read, has no rows, or is broken further down.
        """
        names = (*INDEX[:1] * self.index, *self.columns)
        place = self.place or self.path
        first, blank = self.start, _blank_lines(place)
        with _readable(self.path, place):
            chosen = _scan(place, names, self.separator).select(columns or self.columns)
            if self.length is not None:
                chosen = chosen.slice(self.start, self.length)
            for part in _held_back(
                chosen.collect_batches(chunk_size=self.rows, maintain_order=True, lazy=True), blank
            ):
                yield first, part
                first += part.height
        if first == self.start and not self.several:
            raise no_rows(str(self.path))

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Errors in cells name the file, where there are several."""
        try:
            yield
        except DataError as error:
            if not self.several or str(error).startswith(str(self.path)):
                raise
            raise DataError(f"{self.path}: {error}", kind=error.kind) from None

    def pieces(self) -> "tuple[LongTable, ...]":
        """The table in pieces for several processes: of parquet `PIECE` rows each, csv whole.

        Raises:
            DataError: if it cannot be read.
        """
        if ending(self.path) == ".csv":
            return (self,)
        count = 0
        with _readable(self.path):
            count = _parquet_rows(self.path)
        if count <= PIECE:
            return (self,)
        starts = range(0, count, PIECE)
        return tuple(
            dataclasses.replace(self, start=start, length=min(PIECE, count - start))
            for start in starts
        )


def no_rows(table: str) -> DataError:
    """The error for a table without rows."""
    return DataError(f"{table} has no rows below its header; a table needs at least one")


def long_table(path: str | Path, rows: int) -> LongTable:
    """A table to be read part by part.

    Raises:
        DataError: if the file cannot be opened, or its header is unusable.
    """
    path = Path(path)
    kind = ending(path)
    try:
        check_regular(path)
        with path.open("rb") as file:
            if kind == ".csv":
                names, separator = csv_header(path, file)
                return _without_index(path, rows, names, separator)
    except IsADirectoryError:
        raise DataError(
            f"{path} is a folder; give a table, a .csv or .parquet file", kind="io"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}", kind="io") from None
    with _readable(path):
        return _without_index(path, rows, _scan(path).collect_schema().names())
    raise AssertionError


def _without_index(path: Path, rows: int, names: list[str], separator: str = ",") -> LongTable:
    columns = tuple(name for name in names if name not in INDEX)
    return LongTable(path, rows, columns, separator, len(columns) < len(names))


def pieces_of(files: Sequence[str], rows: int) -> tuple[LongTable, ...]:
    """The pieces of a table of one file or of several, to be read `rows` rows at a time.

    Raises:
        DataError: if a file cannot be read, or has other columns than the first one.
    """
    found = [long_table(path, rows) for path in files]
    tables = [dataclasses.replace(table, place=table.path.absolute()) for table in found]
    first = tables[0]
    for table in tables[1:]:
        lacking = [name for name in first.columns if name not in table.columns]
        own = [name for name in table.columns if name not in first.columns]
        if lacking or own:
            told = f"lacks {quoted(lacking[0])}" if lacking else f"has {quoted(own[0])} too"
            raise DataError(
                f"{table.path} has other columns than {first.path}: it {told}; the files of a "
                "table have the same columns"
            )
    if len(tables) > 1:
        tables = [dataclasses.replace(table, several=True) for table in tables]
    return tuple(piece for table in tables for piece in table.pieces())


def table_files(given: str) -> tuple[str, ...]:
    """The files of a table: the one of this name, or all that a pattern stands for, by name.

    Raises:
        DataError: for a pattern that stands for none.
    """
    if os.path.lexists(given) or not any(letter in given for letter in "*?["):
        return (given,)
    found = sorted(glob.glob(given, recursive=True))
    if not found:
        raise DataError(f"no file is named like {given}", kind="io")
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class WholeTable:
    """A table that is read at once.

    Attributes:
        path: a .csv or .parquet file.
        several: whether the table has other files.
    """

    path: str
    several: bool = False

    def parts(self) -> Iterator[tuple[None, DataFrame]]:
        """The table, as its only part.

        Raises:
            DataError: if it cannot be read.
        """
        yield None, read_table(self.path)

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Errors in cells need not name the file."""
        yield


def _scan(path: Path, columns: tuple[str, ...] = (), separator: str = ",") -> LazyFrame:
    """A lazy table; brackets and stars in its name are no pattern."""
    import polars as pl

    if ending(path) == ".parquet":
        return pl.scan_parquet(path, glob=False)
    named: Any = {"with_column_names": lambda _: list(columns)}
    return pl.scan_csv(path, infer_schema=False, glob=False, separator=separator, **named)


def _blank_lines(path: Path) -> int:
    """Blank lines at the end of a csv file, which are no rows."""
    if ending(path) != ".csv":
        return 0
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 4096, 0))
        last = file.read()
    return max((last[len(last.rstrip(b"\r\n")) :]).count(b"\n") - 1, 0)


def _held_back(parts: Iterator[DataFrame], count: int) -> Iterator[DataFrame]:
    """The parts without the last rows of all."""
    held = None
    for part in parts:
        rows = part if held is None else held.vstack(part)
        if count:
            held = rows.tail(count)
        rows = rows.head(rows.height - count) if rows.height > count else rows.clear()
        if rows.height:
            yield rows


@contextlib.contextmanager
def _readable(path: Path, place: Path | None = None) -> Iterator[None]:
    """Raise the reader's errors again in plain words; that there is no file as it is.

    Args:
        path: what messages call the file.
        place: where it is; None for `path`.
    """
    import polars as pl

    place = place or path
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if not place.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place)) from None
        if ending(path) == ".parquet":
            raise not_parquet(path, error) from None
        with place.open("rb") as file:
            why = why_no_csv(file, error)
        raise DataError(f"{path} cannot be read as csv: {why}") from None
