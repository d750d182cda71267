"""Tables that are read part by part, because they are too large for memory."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cavity.columns.frames import DataFrame, LazyFrame
from cavity.numerics.memory import memory
from cavity.persistence.atomic_file import check_regular, reason
from cavity.persistence.errors import DataError
from cavity.tables.files import INDEX, csv_header, ending, not_parquet, read_table, why_no_csv

# Rows read at a time.
ROWS = 50_000
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
    import polars as pl

    with _readable(path):
        scan = _scan(path)
        return 8.0 * len(scan.collect_schema()) * scan.select(pl.len()).collect().item()
    return 0.0


@dataclasses.dataclass(frozen=True)
class LongTable:
    """A table that is read `rows` rows at a time, as often as need be.

    Attributes:
        path: a .csv or .parquet file.
        rows: of a part.
        columns: the names of all columns.
        separator: between the cells of a csv file.
        index: whether the file has the index of a data frame too, which is no column.
    """

    path: Path
    rows: int
    columns: tuple[str, ...]
    separator: str = ","
    index: bool = False

    def parts(self, *columns: str) -> Iterator[tuple[int, DataFrame]]:
        """One pass: for each part the number of rows before it, and the part.

        Args:
            *columns: those to be read; all without any.

        Raises:
            DataError: if the file cannot be read, has no rows, or is broken further down.
        """
        names = (*INDEX[:1] * self.index, *self.columns)
        chosen = _scan(self.path, names, self.separator).select(columns or self.columns)
        first, blank = 0, _blank_lines(self.path)
        with _readable(self.path):
            for part in _held_back(
                chosen.collect_batches(chunk_size=self.rows, maintain_order=True, lazy=True), blank
            ):
                yield first, part
                first += part.height
        if not first:
            raise DataError(
                f"{self.path} has no rows below its header; a table needs at least one"
            )


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


def table_parts(path: str | Path, rows: int | None) -> Iterator[tuple[int | None, DataFrame]]:
    """A table in parts, with the rows before each; all of it at once, and None, without `rows`.

    Raises:
        DataError: if it cannot be read.
    """
    if rows is None:
        yield None, read_table(path)
        return
    yield from long_table(path, rows).parts()


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
def _readable(path: Path) -> Iterator[None]:
    """Raise the reader's errors again in plain words."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if ending(path) == ".parquet":
            raise not_parquet(path, error) from None
        with path.open("rb") as file:
            why = why_no_csv(file, error)
        raise DataError(f"{path} cannot be read as csv: {why}") from None
