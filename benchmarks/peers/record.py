"""Rows of results, printed and kept."""

from typing import Any

from benchmarks.peers.machine import processor
from benchmarks.results import Table


class Record:
    """A table of results, or with `quick` only what is printed.

    Args:
        name: of the csv below `benchmarks/results`.
        keys: the columns that identify a row.
        threads: the cap on threads.
        quick: whether nothing is kept.
    """

    def __init__(self, name: str, keys: tuple[str, ...], threads: int, *, quick: bool):
        self.table, self.threads, self.quick = Table(name, keys), threads, quick

    def has(self, **key: Any) -> bool:
        """Whether such a row was kept."""
        return not self.quick and self.table.has(**key)

    def add(self, row: dict[str, Any]) -> None:
        """Prints a row, and keeps it."""
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        if not self.quick:
            self.table.add(row | {"processor": processor()})
