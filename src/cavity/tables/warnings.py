"""Warnings about a table, whole or read in parts."""

import dataclasses
from collections.abc import Mapping

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
    """

    rows: int = 0
    kept: int = 0
    unseen: Mapping[str, tuple[int, frozenset[str]]] = dataclasses.field(default_factory=dict)

    def __add__(self, other: "EncodingWarnings") -> "EncodingWarnings":
        unseen = dict(self.unseen)
        for name, (count, new) in other.unseen.items():
            before = unseen.get(name, (0, frozenset()))
            first = sorted(before[1] | new)[: NAMED + 1]
            unseen[name] = (before[0] + count, frozenset(first))
        return EncodingWarnings(self.rows + other.rows, self.kept + other.kept, unseen)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings in words, without that about incomplete rows."""
        return tuple(self._unseen(name, *found) for name, found in self.unseen.items())

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
