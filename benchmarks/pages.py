"""Figures of the documentation, taken from the csv files of the results by SQL.

A marked place begins with a comment that holds a query, and ends with another comment:

    <!-- csv: SELECT "M", f(mean(rmse), '.3f') AS "RMSE" FROM anchors GROUP BY "M" -->
    ...
    <!-- end -->

On a line of its own the first comment asks for a table in Markdown, within a line for a single
figure. Each csv file of `benchmarks/results` is a table, in the order of the file. Beside the
functions of SQLite there are `f(value, format)`, with a format of Python's, and the aggregates
`mean`, `median` and `se`, the standard error of a mean. An empty cell and "nan" are NULL, True
and False are 1 and 0. Put column names that are words of SQL in square brackets: [set].

python -m benchmarks.pages            writes all figures anew
python -m benchmarks.pages --check    names the places that differ, and changes nothing
"""

import argparse
import csv
import functools
import math
import re
import sqlite3
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.results import FOLDER

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"(<!-- csv:(?P<query>.*?)-->)(?P<shown>.*?)(?P<end><!-- end -->)", re.DOTALL)

Cell = int | float | str | None


def pages() -> list[Path]:
    """The pages that may have marked places."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def cell(text: str) -> Cell:
    """What SQL is given for a cell of a csv file."""
    if text in ("", "nan"):
        return None
    if text in ("True", "False"):
        return int(text == "True")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def standard_error(values: Sequence[float]) -> float:
    """Of the mean of these values."""
    return statistics.stdev(values) / math.sqrt(len(values))


def aggregate(summary: Callable[[list[float]], float], least: int = 1) -> type:
    """A summary of so many values or more, in the form that SQLite asks for."""

    class Aggregate:
        def __init__(self) -> None:
            self.values: list[float] = []

        def step(self, value: float | None) -> None:
            if value is not None:
                self.values.append(value)

        def finalize(self) -> float | None:
            return summary(self.values) if len(self.values) >= least else None

    return Aggregate


@functools.cache
def results(folder: Path = FOLDER) -> sqlite3.Connection:
    """All csv files of a folder as tables of a database in memory."""
    database = sqlite3.connect(":memory:")
    database.create_function("f", 2, formatted)
    database.create_aggregate("mean", 1, aggregate(statistics.fmean))
    database.create_aggregate("median", 1, aggregate(statistics.median))
    database.create_aggregate("se", 1, aggregate(standard_error, least=2))
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            head, *rows = csv.reader(file)
        columns = ", ".join(f"[{name}]" for name in head)
        database.execute(f"CREATE TABLE [{path.stem}] ({columns})")
        marks = ", ".join("?" * len(head))
        values = [[cell(text) for text in row] for row in rows]
        database.executemany(f"INSERT INTO [{path.stem}] VALUES ({marks})", values)
    return database


def formatted(value: Cell, spec: str) -> str | None:
    """A number as Python writes it, with a space before % and no minus where zeros are shown."""
    if value is None:
        return None
    shown = format(value, spec)
    shown = shown[1:] if re.fullmatch(r"-[0.]+%?", shown) else shown
    return shown.removesuffix("%") + " %" if shown.endswith("%") else shown


def answer(query: str, database: sqlite3.Connection | None = None) -> list[list[str]]:
    """The names of the columns, and the rows below them.

    Raises:
        ValueError: SQL refuses the query, or there are no rows.
    """
    try:
        found = (database or results()).execute(query)
        rows = [["" if value is None else str(value) for value in row] for row in found]
    except sqlite3.Error as error:
        raise ValueError(f"{error} in: {query.strip()}") from error
    if not rows:
        raise ValueError(f"no rows from: {query.strip()}")
    return [[column[0] for column in found.description], *rows]


def table(query: str, database: sqlite3.Connection | None = None) -> str:
    """All of an answer, in Markdown."""
    head, *rows = answer(query, database)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(query: str, database: sqlite3.Connection | None = None) -> str:
    """An answer of one row and one column.

    Raises:
        ValueError: it has more.
    """
    head, *rows = answer(query, database)
    if (len(head), len(rows)) != (1, 1):
        raise ValueError(f"{len(rows)} rows of {len(head)} columns from: {query.strip()}")
    return rows[0][0]


def renewed(text: str) -> str:
    """A page whose marked places have the figures of the csv files."""

    def place(match: re.Match[str]) -> str:
        before = text[: match.start()].rpartition("\n")[2]
        below = match["shown"].startswith("\n")
        if before.strip(" -*>"):
            if below:
                raise ValueError(f"a table within a line: {match[0]!r}")
            return match[1] + figure(match["query"]) + match["end"]
        if not below:
            raise ValueError(f"a single figure at the beginning of a line: {match[0]!r}")
        return f"{match[1]}\n{table(match['query'])}\n{match['end']}"

    return PLACE.sub(place, text)


def different(page: Path) -> bool:
    """True if a page has other figures than the csv files."""
    text = page.read_text()
    return renewed(text) != text


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures of the documentation from csv files.")
    parser.add_argument("--check", action="store_true", help="only name the pages that differ")
    check = parser.parse_args().check
    stale = [page for page in pages() if different(page)]
    for page in stale:
        print(page.relative_to(ROOT), "differs from the csv files" if check else "written")
        if not check:
            page.write_text(renewed(page.read_text()))
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
