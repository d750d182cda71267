"""Warnings about a table, whole or read in parts."""

import dataclasses
from collections.abc import Mapping

from cavity.columns.ranges import Outside
from cavity.numerics.text import plural, quoted
from cavity.persistence.errors import DataError

# New categories that are named.
NAMED = 5


@dataclasses.dataclass(frozen=True)
class EncodingWarnings:
    """Warnings about a table; those of its parts add up.

    Attributes:
        rows: of the table.
        kept: those without a missing cell.
        unseen: by column, the cells whose category was not there in fitting, and the first of
            these in order, one more than are named.
        outside: by column of numbers or dates, the rows outside the range of the fit; nothing
            where that is not known.
    """

    rows: int = 0
    kept: int = 0
    unseen: Mapping[str, tuple[int, frozenset[str]]] = dataclasses.field(default_factory=dict)
    outside: Mapping[str, Outside] = dataclasses.field(default_factory=dict)

    def __add__(self, other: "EncodingWarnings") -> "EncodingWarnings":
        unseen = dict(self.unseen)
        for name, (count, new) in other.unseen.items():
            before = unseen.get(name, (0, frozenset()))
            first = sorted(before[1] | new)[: NAMED + 1]
            unseen[name] = (before[0] + count, frozenset(first))
        outside = dict(self.outside)
        for name, more in other.outside.items():
            outside[name] = outside[name] + more if name in outside else more
        rows, kept = self.rows + other.rows, self.kept + other.kept
        return EncodingWarnings(rows, kept, unseen, outside)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings in words, without that about incomplete rows."""
        unseen = tuple(self._unseen(name, *found) for name, found in self.unseen.items())
        return unseen + self._outside()

    @property
    def record(self) -> dict[str, dict[str, int]]:
        """Rows outside the range of the fit by column, an entry of `--json` where it is known."""
        counts = {name: found.count for name, found in self.outside.items() if found.count}
        return {"outside": counts} if self.outside else {}

    def _outside(self) -> tuple[str, ...]:
        """The columns in which rows lie outside the range of the fit, in one sentence."""
        told = {
            name: found.count
            for name, found in self.outside.items()
            if found.worth_a_word(self.kept, len(self.outside))
        }
        if not told:
            return ()
        first, *others = told.items()
        lie = "lies" if first[1] == 1 else "lie"
        rows = plural(self.kept, "row")
        start = f"{first[1]} of {rows} {lie} outside the range of the fit in {quoted(first[0])}"
        each = [f"{count} in {quoted(name)}" for name, count in others]
        if len(others) > NAMED:
            each[NAMED:] = [f"some in {plural(len(others) - NAMED, 'other column')}"]
        listed = ", ".join([start, *each])
        return (f"{listed}: predictions there are extrapolated",)

    def _unseen(self, name: str, count: int, new: frozenset[str]) -> str:
        listed = ", ".join(quoted(cell) for cell in sorted(new)[:NAMED])
        listed += ", ..." if len(new) > NAMED else ""
        hold = "holds" if count == 1 else "hold"
        return (
            f"column {quoted(name)}: {count} of {plural(self.rows, 'row')} {hold} categories that "
            f"were not there in fitting ({listed}); they count as none of the known ones"
        )


def refuse_empty(noticed: EncodingWarnings) -> None:
    """Complains about a table none of whose rows are complete."""
    if not noticed.kept:
        raise DataError(f"every row has a missing cell ({noticed.rows} in all): none is left")
