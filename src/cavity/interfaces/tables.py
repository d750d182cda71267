"""Tables in and out: csv and parquet files."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.interfaces.errors import DataError
from cavity.interfaces.files import reason, whole_file, why_not_writable

if TYPE_CHECKING:
    from polars import DataFrame
else:
    DataFrame = Any

ENDINGS = (".csv", ".parquet")


def read_table(path: str | Path) -> DataFrame:
    """The table in a .csv or .parquet file; cells of a csv stay text until they are encoded.

    Raises:
        DataError: of kind "io" if the file cannot be read, "data" if it is not such a table.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise DataError(
            f"{path} is a folder; give a table, a .csv or .parquet file", kind="io"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}", kind="io") from None
    if _ending(path) == ".csv":
        table = _read_csv(path, data)
    else:
        table = _read_parquet(path, data)
    if not table.height:
        raise DataError(f"{path} has no rows below its header; a table needs at least one")
    return table


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        found = f"ends in '{ending}'" if ending else "has no ending"
        raise DataError(f"{path} {found}; a table is a .csv or a .parquet file")
    return ending


def _read_csv(path: Path, data: bytes) -> DataFrame:
    import polars as pl

    names = _header(path, data)
    try:
        # blank lines at the end are no rows
        source = io.BytesIO(data.rstrip(b"\r\n") + b"\n")
        table = pl.read_csv(source, infer_schema=False)
        table.columns = names
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} cannot be read as csv: {_why(data, error)}") from None
    return table


def _header(path: Path, data: bytes) -> list[str]:
    """The names of the columns of a csv file, checked."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    try:
        names = next((row for row in csv.reader(lines) if row), None)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as csv: {_why(data, error)}") from None
    if names is None:
        raise DataError(f"{path} is empty; a table has a header and at least one row")
    names = [name.strip() for name in names]
    for i, name in enumerate(names):
        if not name:
            raise DataError(
                f"{path}: column {i + 1} has no name in the header; name it (a csv written with "
                "a row index has such a column: write it without)"
            )
        if name in names[:i]:
            raise DataError(f"{path} has two columns named '{name}'; rename one of them")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise DataError(
            f"{path} has one column named '{names[0]}'; separate the cells by commas, and write "
            "decimals with a point"
        )
    return names


def _why(data: bytes, error: Exception) -> str:
    """What is wrong with a csv file, more plainly than its parser says it."""
    try:
        lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        widths = [(len(row), lines.line_num) for row in lines if row]
    except UnicodeDecodeError as failure:
        return f"byte {failure.start + 1} is not UTF-8 text; save the file as UTF-8"
    except csv.Error as failure:
        return str(failure)
    for width, line in widths:
        if width > widths[0][0]:
            return f"line {line} has {width} cells, the header {widths[0][0]}"
    return str(error).splitlines()[0]


def _read_parquet(path: Path, data: bytes) -> DataFrame:
    import polars as pl

    try:
        return pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise DataError(f"{path} is not a whole parquet file: {first}") from None


def check_output(path: str | Path) -> None:
    """Complains, before long work, if predictions could not be written under a name."""
    path = Path(path)
    _ending(path)
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
    import polars as pl

    check_output(path)
    path = Path(path)
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) != 1:
        raise DataError(f"the columns of a table have one length, given {lengths}")
    series = [pl.Series(name, values, nan_to_null=True) for name, values in columns.items()]
    table = pl.DataFrame(series)
    try:
        with whole_file(path) as file:
            if _ending(path) == ".csv":
                table.write_csv(file)
            else:
                table.write_parquet(file)
    except OSError as error:
        raise DataError(f"cannot write {path}: {reason(error)}", kind="io") from None
