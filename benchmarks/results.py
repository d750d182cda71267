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
        keys: the columns that identify a row.
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
        wanted = {k: str(v) for k, v in key.items()}
        return any(all(row[k] == v for k, v in wanted.items()) for row in self.rows())

    def add(self, row: dict[str, Any]) -> None:
        """Appends a row; floats are written with six digits."""
        row = row | setting()
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
