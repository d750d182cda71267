"""Long tables of a fit: passes over them, and their rows as numbers, part by part."""

import bisect
import contextlib
import dataclasses
import itertools
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cavity.cli.asked import Asked
from cavity.cli.session import Session
from cavity.cli.table_parts import parts_of, parts_record
from cavity.columns.warnings import EncodingWarnings
from cavity.inference.graph.rows import WEIGHT
from cavity.learning.data.parts import Parts
from cavity.learning.engines.base import AbstractEngine, InProcess
from cavity.learning.engines.kept import Dropped
from cavity.persistence.errors import CellError, DataError
from cavity.tables.batched import no_rows, pieces_of
from cavity.tables.class_labels import class_values
from cavity.tables.row_source import Passes, RowSource
from cavity.tables.schema import Encoded, Schema, weightless
from cavity.tables.survey import (
    ClassSurvey,
    ColumnsSeen,
    ColumnSurvey,
    RowsSeen,
    RowSurvey,
)


class LongTables:
    """A table of one file or several, and passes over it.

    Args:
        files: of the table.
        size: rows read at a time.
        engine: what works on its parts; None for this process.

    Attributes:
        columns: the names of its columns.
        parts: its pieces.

    Raises:
        DataError: if a file cannot be read, or has other columns than the first one.
    """

    def __init__(self, files: Sequence[str], size: int, engine: AbstractEngine | None):
        self.files, self.size, self.asked = files, size, engine
        self.engine, self.fit = engine or InProcess(), uuid.uuid4().hex
        pieces = pieces_of(files, size)
        self.columns, self.parts = pieces[0].columns, parts_of(pieces)

    def columns_seen(self, columns: tuple[str, ...], weight_column: str | None) -> ColumnsSeen:
        """What some columns hold.

        Raises:
            DataError: for a table without rows, or none that counts.
        """
        survey = ColumnSurvey(columns, weight_column)
        found = self.engine.sum(survey, self.parts, ColumnsSeen.__add__)
        if found is None or not sum(found.rows):
            one = len(self.files) == 1
            raise no_rows(self.files[0] if one else f"each of {len(self.files)} files")
        if not found.evidence:
            raise weightless(weight_column)
        return found

    def classes(self, schema: Schema) -> tuple[str, ...]:
        """The classes in the target column, in order.

        Raises:
            DataError: for too many.
        """
        (target,) = schema.targets
        found = frozenset(target.categories)
        if not found:
            survey = ClassSurvey(schema)
            found = self.engine.sum(survey, self.parts, survey.both) or found
        names = tuple(found)
        values: list[Any] = class_values(target.kind, names)
        return tuple(name for _, name in sorted(zip(values, names, strict=True)))

    def starts(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Rows of the table before each part."""
        return tuple(itertools.accumulate(rows, initial=0))[:-1]

    def rows_seen(self, survey: RowSurvey) -> RowsSeen:
        """What the rows are as numbers, which are kept with their parts.

        Raises:
            DataError: for cells that cannot be used.
        """
        found = self.engine.sum(survey, self.parts, RowsSeen.__add__)
        assert found is not None
        return found

    def drop(self) -> None:
        """Drops the numbers of the rows, where their parts were last."""
        for _ in self.engine.each(Dropped(self.fit), self.parts):
            pass

    @contextlib.contextmanager
    def blamed(self, rows: Sequence[int]) -> Iterator[None]:
        """Errors in cells tell of rows of the table, and are to tell of a file and its rows.

        Args:
            rows: of each part.
        """
        try:
            yield
        except CellError as error:
            starts = self.starts(rows)
            number = bisect.bisect_right(starts, error.row) - 1
            piece = self.parts[number].source
            with piece.blamed():
                raise error.further_down(piece.start - starts[number]) from None

    def as_numbers(
        self, survey: RowSurvey, seen: RowsSeen, places: np.ndarray | None
    ) -> "LongRows":
        """The rows as numbers.

        Args:
            survey: that has been made.
            seen: what it found.
            places: by the place of a class, its place among those that there are.
        """
        passes, reading = Passes(sum(seen.lengths)), survey.reading
        before = self.starts(seen.lengths)
        told = passes if self.asked is None else Passes()  # an engine tells of its own
        sources = tuple(
            RowSource(self.fit, part.source, reading, digest, row, told, places)
            for part, digest, row in zip(self.parts, seen.digests, before, strict=True)
        )
        inputs = len(reading.schema.features)
        X, y, side = reading.batch_of(seen.sample.whole(inputs), places)
        known = dict(side or {})
        sample = Encoded(
            X=np.ascontiguousarray(X),
            y=np.asarray(y).reshape(len(X), -1),
            noise=known.get("noise_variance"),
            exposure=known.get("exposure"),
            kept=np.ones(len(X), bool),
            features=reading.schema.features,
            noticed=EncodingWarnings(len(X), len(X)),
            weight=known.get(WEIGHT),
        )
        batches = sum(-(-rows // self.size) for rows in seen.lengths)
        return LongRows(sources, self, sample, passes, batches)


@dataclasses.dataclass(frozen=True, eq=False)
class LongRows:
    """The rows of a long table as numbers.

    Attributes:
        sources: of each part.
        table: where they come from.
        sample: some of them; of a short table all.
        passes: told of passes over them.
        batches: the number of batches.
    """

    sources: tuple[RowSource, ...]
    table: LongTables
    sample: Encoded
    passes: Passes
    batches: int

    @property
    def parts(self) -> Parts:
        """All rows, part by part."""
        named = [part.name for part in self.table.parts]
        return Parts(self.sources, names=named, size=self.table.size)

    @property
    def record(self) -> dict[str, int]:
        """Entries of `--json`."""
        table = self.table
        several = parts_record(len(table.files), len(table.parts), table.asked)
        return {"batches": self.batches} | several


def accepted(encoded: Encoded) -> None:
    """Takes all targets."""


def refuse_whole(asked: Asked, files: Sequence[str]) -> None:
    """Complains where a table that is read in batches is to be fitted by what needs all rows."""
    request, family = asked.request, asked.family
    table = f"{request.table} is too large for memory and"
    if len(files) > 1:
        table = f"{request.table} has {len(files)} files and"
    elif request.by_processes:
        table = f"{request.table} goes to processes in parts and"
    if "--batch-rows" in family.unused:
        raise DataError(
            f"{table} is read in batches, and {family.called} "
            "needs all rows at once; leave --model out, or fit some of the rows"
        )
    if "class_weights" in asked.given:
        raise DataError(
            f"{table} is read in batches, and --class-weight "
            "needs all rows at once; name a column of weights with --weight-column instead"
        )
    whole = {None: "a full GP", "enough": "a search for enough points"}
    method, points = asked.values.get("method", "power_ep"), asked.values.get("n_inducing", "auto")
    if method not in ("power_ep", "tied") or points in whole:
        needing = whole.get(points, f"the method '{method}'")
        raise DataError(
            f"{table} is read in batches, and {needing} needs "
            "all rows at once; leave the option out, or fit some of the rows"
        )


def in_batches(session: Session, asked: Asked, likelihood: str) -> Asked:
    """The request as it can be done with a table that is read in batches.

    Minibatches take the place of a site for every row, which takes many more passes, unless that
    is asked for, or processes that share the passes.
    """
    request = asked.request
    if likelihood == "gaussian" or "method" in asked.given or request.by_processes:
        return asked
    session.warn(
        f"{request.table} is read in batches, and the method 'power_ep' makes some ten passes for "
        f"each iteration with the likelihood '{likelihood}': 'tied' takes its place, with "
        "minibatches; --method power_ep keeps it"
    )
    return asked.but(method="tied")
