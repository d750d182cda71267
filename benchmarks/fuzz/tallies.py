"""Counts of random cases by their settings, in a csv file that a run goes on from."""

from collections.abc import Mapping
from typing import Any

from benchmarks.results import Table


class Tallies:
    """Counts of the cases of one seed, by their settings.

    Args:
        table: the csv file; the first of its keys is the seed, the others are the settings.
        counts: what is counted, the cases themselves first.
        seed: of the cases.
    """

    def __init__(self, table: Table, counts: tuple[str, ...], seed: int):
        self.table, self.counts, self.seed = table, counts, seed
        rows = [row for row in table.rows() if row["seed"] == str(seed)]
        self.found = {
            tuple(row[name] for name in table.keys[1:]): {c: int(row[c]) for c in counts}
            for row in rows
        }

    @property
    def begun(self) -> int:
        """The cases that are counted."""
        return sum(tally[self.counts[0]] for tally in self.found.values())

    def count(self, settings: Mapping[str, Any], *values: int) -> None:
        """Adds to the counts of some settings; `write` puts them into the file."""
        key = tuple(str(settings[name]) for name in self.table.keys[1:])
        tally = self.found.setdefault(key, dict.fromkeys(self.counts, 0))
        for name, value in zip(self.counts, values, strict=True):
            tally[name] += int(value)

    def write(self) -> None:
        """Writes all counts."""
        for key, tally in self.found.items():
            settings = dict(zip(self.table.keys[1:], key, strict=True))
            self.table.add({"seed": self.seed, **settings, **tally})
