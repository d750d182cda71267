"""Small csv files of results that grow row by row, so that a long run can be resumed."""

import csv
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"


def setting() -> dict[str, Any]:
    """The versions and the machine, for each row of results."""
    return {
        "cavity": version("cavity"),
        "jax": version("jax"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


class Table:
    """A csv file of results.

    Args:
        name: file name below `benchmarks/results`.
        keys: the columns that identify a row; none where every row is another.
    """

    def __init__(self, name: str, keys: tuple[str, ...]):
        self.path, self.keys = FOLDER / name, keys
        self.path.parent.mkdir(exist_ok=True)

    def rows(self) -> list[dict[str, str]]:
        """All rows, as text."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return list(csv.DictReader(file))

    def has(self, **key: Any) -> bool:
        """Whether a row with these values is there."""
        return any(_alike(row, key) for row in self.rows())

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row, in the place of one that is there; floats are written with six digits."""
        key = {name: row[name] for name in self.keys}
        kept = [old for old in self.rows() if not key or not _alike(old, key)]
        row = row | setting()
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)
            writer.writerow({k: _cell(v) for k, v in row.items()})


def _alike(row: dict[str, str], key: dict[str, Any]) -> bool:
    """Whether a row of text has these values."""
    return all(row[k] == str(_cell(v)) for k, v in key.items())


def _cell(value: Any) -> Any:
    """A value as it is written."""
    return f"{value:.6g}" if isinstance(value, float) else value
