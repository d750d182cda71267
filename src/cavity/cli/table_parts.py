"""A table as numbers, part by part, and what is said of it."""

from collections.abc import Iterator
from typing import Any

from cavity.cli.session import Session
from cavity.columns.warnings import EncodingWarnings, refuse_empty
from cavity.numerics.text import plural
from cavity.tables.batched import table_parts
from cavity.tables.schema import Encoded, Schema, encode


class Parts:
    """The numbers that a model takes from a table, read anew in every pass.

    Args:
        path: of the table.
        schema: of the model.
        size: rows of a part; None for all of them at once.
        drop_missing: leave rows with a missing cell out instead of complaining.
        need_targets: read the targets too.

    Attributes:
        noticed: what was noticed in the last whole pass.
        count: the number of parts in it.
    """

    def __init__(
        self,
        path: str,
        schema: Schema,
        size: int | None,
        *,
        drop_missing: bool,
        need_targets: bool = True,
    ):
        self.path, self.schema, self.size = path, schema, size
        self.reading = {"drop_missing": drop_missing, "need_targets": need_targets}
        self.noticed, self.count = EncodingWarnings(), 0

    def __iter__(self) -> Iterator[Encoded]:
        noticed, count = EncodingWarnings(), 0
        for first, table in table_parts(self.path, self.size):
            encoded = encode(table, self.schema, first=first, **self.reading)
            noticed, count = noticed + encoded.noticed, count + 1
            yield encoded
        refuse_empty(noticed)
        self.noticed, self.count = noticed, count

    @property
    def record(self) -> dict[str, Any]:
        """Entries of `--json` on how the table was read, and what was noticed."""
        batches = {} if self.size is None else {"batches": self.count}
        return batches | self.noticed.record


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
