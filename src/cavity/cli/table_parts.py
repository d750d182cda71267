"""A table as numbers, part by part, and what is said of it."""

from collections.abc import Iterator, Sequence
from typing import Any

from cavity.cli.session import Session
from cavity.columns.warnings import EncodingWarnings, refuse_empty
from cavity.numerics.text import plural
from cavity.tables.batched import long_table, table_parts
from cavity.tables.schema import Encoded, Schema, encode, need_column


class Parts:
    """The numbers that a model takes from a table, read anew in every pass.

    Args:
        path: of the table.
        schema: of the model.
        size: rows of a part; None for all of them at once.
        keep: columns that are wanted as they are.
        **reading: what else `encode` is to know: `drop_missing`, `need_targets`, `weight_column`.

    Attributes:
        noticed: what was noticed in the last whole pass.
        count: the number of parts in it.
    """

    def __init__(
        self,
        path: str,
        schema: Schema,
        size: int | None,
        keep: Sequence[str] = (),
        **reading: Any,
    ):
        self.path, self.schema, self.size, self.reading = path, schema, size, reading
        self.noticed, self.count, self.keep = EncodingWarnings(), 0, keep

    def __iter__(self) -> Iterator[Encoded]:
        return (encoded for encoded, _ in self.with_kept())

    def with_kept(self) -> Iterator[tuple[Encoded, dict[str, Any]]]:
        """The numbers of each part, and its columns that are to be kept, by name.

        Raises:
            DataError: for a column that is not there.
        """
        noticed, count = EncodingWarnings(), 0
        for first, table in table_parts(self.path, self.size):
            for name in self.keep:
                need_column(table.columns, name)
            encoded = encode(table, self.schema, first=first, **self.reading)
            noticed, count = noticed + encoded.noticed, count + 1
            yield encoded, {name: table[name] for name in self.keep}
        refuse_empty(noticed)
        self.noticed, self.count = noticed, count

    @property
    def record(self) -> dict[str, Any]:
        """Entries of `--json` on how the table was read, and what was noticed."""
        batches = {} if self.size is None else {"batches": self.count}
        return batches | self.noticed.record


def note_index(session: Session, path: str) -> None:
    """Says where a table has the index of a data frame, which is no column."""
    if long_table(path, 1).index:
        session.note(f"{path}: the first column, without a name, is an index and left out")


def report_warnings(
    session: Session, name: str, noticed: EncodingWarnings, fate: str = "left out"
) -> None:
    """Passes on what was noticed in a table, and the fate of incomplete rows."""
    for warning in noticed.warnings:
        session.warn(f"{name}: {warning}")
    missing = noticed.rows - noticed.kept
    if missing:
        rows = plural(noticed.rows, "row")
        session.warn(f"{name}: {missing} of {rows} {fate}: a cell is missing")
