"""Tables in and out: csv and parquet files."""

import contextlib
import csv
import io
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cavity.columns.frames import DataFrame
from cavity.persistence.atomic_file import (
    reason,
    regular_bytes,
    whole_file,
    why_not_writable,
)
from cavity.persistence.errors import DataError

ENDINGS = (".csv", ".parquet")
# Between cells.
SEPARATORS = ",;\t"
# Letters of a cell: what fits into the C integer of the csv reader on every system.
LONGEST = 2**31 - 1
# Names of the index of a data frame, first in files of pandas and of R: no column of a table.
INDEX = ("", "__index_level_0__")
# Lines by which the separator is told.
LOOKED_AT = 20


def read_table(path: str | Path, *, may_be_empty: bool = False, index: bool = False) -> DataFrame:
    """The table in a .csv or .parquet file; cells of a csv stay text until they are encoded.

    Args:
        path: the file.
        may_be_empty: whether a table without rows is one too.
        index: whether the index of a data frame, which is no column, is given too.

    Raises:
        DataError: of kind "io" if the file cannot be read, "data" if it is not such a table.
    """
    path = Path(path)
    try:
        data = regular_bytes(path)
    except IsADirectoryError:
        raise DataError(
            f"{path} is a folder; give a table, a .csv or .parquet file", kind="io"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}", kind="io") from None
    if ending(path) == ".csv":
        table = _read_csv(path, data)
    else:
        table = _read_parquet(path, data)
    table = table if index else table.drop(INDEX, strict=False)
    if not (table.height or may_be_empty):
        raise DataError(f"{path} has no rows below its header; a table needs at least one")
    return table


def ending(path: Path) -> str:
    """The ending of a table's name.

    Raises:
        DataError: unless it is that of a table.
    """
    found = path.suffix.lower()
    if found not in ENDINGS:
        how = f"ends in '{found}'" if found else "has no ending"
        raise DataError(f"{path} {how}; a table is a .csv or a .parquet file")
    return found


def _read_csv(path: Path, data: bytes) -> DataFrame:
    import polars as pl

    names, separator = csv_header(path, io.BytesIO(data))
    try:
        # blank lines at the end are no rows
        source = io.BytesIO(data.rstrip(b"\r\n") + b"\n")
        table = pl.read_csv(source, infer_schema=False, separator=separator)
        table.columns = names
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{path} cannot be read as csv: {why_no_csv(io.BytesIO(data), error)}"
        ) from None
    return table


def csv_header(path: Path, file: io.BufferedReader | io.BytesIO) -> tuple[list[str], str]:
    """The names of the columns of a csv file, checked, and what separates cells.

    The first may be empty: that of an index.

    Raises:
        DataError: for a header that is missing or cannot be used.
    """
    lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        with _any_length():
            separator = _separator(lines)
            names = next((row for row in csv.reader(lines, delimiter=separator) if row), None)
    except (UnicodeDecodeError, csv.Error) as error:
        file.seek(0)
        raise DataError(f"{path} cannot be read as csv: {why_no_csv(file, error)}") from None
    finally:
        lines.detach()  # which leaves the file to its owner
    if names is None:
        raise DataError(f"{path} is empty; a table has a header and at least one row")
    names = [name.strip() for name in names]
    seen = set[str]()
    for i, name in enumerate(names):
        if not name and (i > 0 or len(names) == 1):
            raise DataError(f"{path}: column {i + 1} has no name in the header; name it")
        if name in seen:
            raise DataError(f"{path} has two columns named '{name}'; rename one of them")
        seen.add(name)
    return names, separator


def _separator(lines: io.TextIOWrapper) -> str:
    """The mark that splits the header and the first rows alike, and of several most finely.

    The file is at its beginning after.
    """
    first = [*itertools.islice((line for line in lines if line.strip()), LOOKED_AT)]
    lines.seek(0)

    def splits(mark: str) -> tuple[int, int]:
        header, *rows = [len(row) for row in csv.reader(first, delimiter=mark)] or [0]
        return rows.count(header) if header > 1 else 0, header

    return max(SEPARATORS, key=splits)


@contextlib.contextmanager
def _any_length() -> Iterator[None]:
    """Cells of any length for the csv reader, which by itself refuses long ones."""
    before = csv.field_size_limit(LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)


@_any_length()
def why_no_csv(file: io.BufferedReader | io.BytesIO, error: Exception) -> str:
    """Reason why a csv file cannot be read, more plainly than its parser says it."""
    position = 0
    for line in file:
        try:
            line.decode("utf-8-sig")
        except UnicodeDecodeError as failure:
            byte = position + failure.start + 1
            return f"byte {byte} is not UTF-8 text; save the file as UTF-8"
        position += len(line)
    file.seek(0)
    texts = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        lines = csv.reader(texts, delimiter=_separator(texts))
        width = len(next((row for row in lines if row), ()))
        for row in lines:
            if len(row) > width:
                return f"line {lines.line_num} has {len(row)} cells, the header {width}"
    except csv.Error as failure:
        return str(failure)
    finally:
        texts.detach()
    return str(error).splitlines()[0]


def _read_parquet(path: Path, data: bytes) -> DataFrame:
    import polars as pl

    try:
        return pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise not_parquet(path, error) from None


def not_parquet(path: Path, error: BaseException) -> DataError:
    """The error about a parquet file that cannot be read."""
    first = (str(error).splitlines() or ["no reason given"])[0]
    return DataError(f"{path} is not a whole parquet file: {first}")


def beside(kept: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the file to write, after those that are kept of the table.

    Raises:
        DataError: for one that is kept and has the name of another.
    """
    for name in kept:
        if name in columns:
            raise own_column(name)
    return {**kept, **columns}


def own_column(name: str) -> DataError:
    """The error for a column to keep that has the name of one that is written anyway."""
    return DataError(f"the file to write has a column '{name}' of its own: rename the one to keep")


def check_output(path: str | Path) -> None:
    """Complains, before long work, if predictions could not be written under a name."""
    path = Path(path)
    ending(path)
    trouble = why_not_writable(path)
    if trouble:
        raise DataError(trouble, kind="io")


def write_predictions(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Writes columns of one length as .csv or .parquet, whole or not at all.

    Args:
        path: the file; what it held before is replaced.
        columns: arrays by name, in order; NaN and None are written as empty cells.

    Raises:
        DataError: if the file cannot be written (kind "io") or its ending is another.
    """
    with predictions_file(path) as add:
        add(columns)


@contextlib.contextmanager
def predictions_file(path: str | Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A file of predictions that are written part by part; it appears whole or not at all.

    Yields:
        What to call with the columns of each part, in order.

    Raises:
        DataError: as `write_predictions`.
    """
    check_output(path)
    path = Path(path)
    with contextlib.ExitStack() as opened:
        with _writing(path):
            file = opened.enter_context(whole_file(path))
            folder = opened.enter_context(tempfile.TemporaryDirectory(dir=path.parent))
            into = _CsvParts(file) if ending(path) == ".csv" else _ParquetParts(file, folder)

        def add(columns: Mapping[str, Any]) -> None:
            with _writing(path):
                into.add(columns)

        yield add
        with _writing(path):
            into.finish()
            opened.close()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Says that a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {path}: {reason(error)}", kind="io") from None


def _frame(columns: Mapping[str, Any]) -> DataFrame:
    import polars as pl

    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) != 1:
        raise DataError(f"the columns of a table have one length, given {lengths}")
    series = [pl.Series(name, values, nan_to_null=True) for name, values in columns.items()]
    return pl.DataFrame(series)


class _CsvParts:
    """Parts of a csv file, one after another."""

    def __init__(self, file: Any):
        self.file, self.begun = file, False

    def add(self, columns: Mapping[str, Any]) -> None:
        _frame(columns).write_csv(self.file, include_header=not self.begun)
        self.begun = True

    def finish(self) -> None:
        """Nothing is left to do."""


class _ParquetParts:
    """Parts of a parquet file, each a file of its own until they are put together."""

    def __init__(self, file: Any, folder: str):
        self.file, self.folder, self.parts = file, Path(folder), []

    def add(self, columns: Mapping[str, Any]) -> None:
        self.parts.append(self.folder / f"{len(self.parts)}.parquet")
        frame = _frame(columns)
        with _unwritten():
            frame.write_parquet(self.parts[-1])

    def finish(self) -> None:
        import polars as pl

        # a column may be empty in some parts and typed in others
        with _unwritten():
            scans = [pl.scan_parquet(part) for part in self.parts]
            pl.concat(scans, how="vertical_relaxed").sink_parquet(self.file)


@contextlib.contextmanager
def _unwritten() -> Iterator[None]:
    """Raise errors of the parquet writer again as the system's."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise OSError((str(error).splitlines() or ["no reason given"])[0]) from None
