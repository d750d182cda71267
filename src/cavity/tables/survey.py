"""The first passes over a long table, as sums over its pieces: what columns hold, and numbers."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from cavity.columns.column_types import REMEMBERED, Evidence, evidence
from cavity.columns.ranges import Ranges
from cavity.columns.warnings import EncodingWarnings
from cavity.learning.data.scales import Tally, tally
from cavity.learning.engines.base import Part
from cavity.persistence.errors import CellError, DataError
from cavity.tables.batched import LongTable
from cavity.tables.class_labels import classes_of
from cavity.tables.row_source import Reading, written
from cavity.tables.schema import Encoded, Schema, counts_for_nothing, without_weightless

# Rows from which starting values and inducing points come; of fewer all.
SAMPLED = 20_000


@dataclasses.dataclass(frozen=True)
class ColumnsSeen:
    """What columns hold in pieces of a table that follow one another.

    Attributes:
        rows: of each piece.
        evidence: about the type of each column, by name; none without rows.
    """

    rows: tuple[int, ...]
    evidence: Mapping[str, Evidence]

    def __add__(self, other: "ColumnsSeen") -> "ColumnsSeen":
        both = dict(self.evidence)
        for name, new in other.evidence.items():
            both[name] = both[name] + new if name in both else new
        return ColumnsSeen(self.rows + other.rows, both)


@dataclasses.dataclass(frozen=True)
class ColumnSurvey:
    """Finds what columns hold in a part, which is a piece of a table.

    Attributes:
        columns: their names.
        weight_column: of weights of the rows; None for none.
    """

    columns: tuple[str, ...]
    weight_column: str | None

    def __call__(self, part: Part) -> ColumnsSeen:
        """Of one part."""
        piece: LongTable = part.source
        found = ColumnsSeen((0,), {})
        for first, table in piece.parts(*self.columns):
            with piece.blamed():
                try:
                    none = counts_for_nothing(table, self.weight_column)
                    table = without_weightless(table, self.weight_column)
                except CellError as error:
                    raise error.further_down(first) from None
            seen = {} if none else {name: evidence(table[name]) for name in self.columns}
            both = found + ColumnsSeen((table.height,), seen)
            found = ColumnsSeen((sum(both.rows),), both.evidence)
        return found


@dataclasses.dataclass(frozen=True)
class ClassSurvey:
    """Finds the classes in a part, which is a piece of a table.

    Attributes:
        schema: what its columns are.
    """

    schema: Schema

    def __call__(self, part: Part) -> frozenset[str]:
        """Of one part.

        Raises:
            DataError: for too many.
        """
        piece: LongTable = part.source
        (target,) = self.schema.targets
        found: frozenset[str] = frozenset()
        for _, table in piece.parts(target.name):
            with piece.blamed():
                numbers = self.schema.as_numbers(table)
            found = self.both(found, frozenset(classes_of(numbers[target.name], target.kind)))
        return found

    def both(self, a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
        """The classes of both.

        Raises:
            DataError: for too many.
        """
        if len(a | b) > REMEMBERED:
            (target,) = self.schema.targets
            raise DataError(
                f"the target '{target.name}' has more than {REMEMBERED} classes, too many to "
                "tell apart; merge some of them, or leave --task out for regression"
            )
        return a | b


@dataclasses.dataclass(frozen=True, eq=False)
class RowSample:
    """Rows of the smallest random keys, in order, and the first row of each class.

    Attributes:
        rows: of numbers, (n, width).
        keys: theirs, (n,).
        classes: by the place of a class its first row; none where targets are no classes.
    """

    rows: np.ndarray
    keys: np.ndarray
    classes: Mapping[float, np.ndarray]

    def __add__(self, other: "RowSample") -> "RowSample":
        rows = np.vstack([self.rows, other.rows])
        keys = np.concatenate([self.keys, other.keys])
        if len(keys) > SAMPLED:
            kept = np.sort(np.argpartition(keys, SAMPLED)[:SAMPLED])
            rows, keys = rows[kept], keys[kept]
        return RowSample(rows, keys, {**other.classes, **self.classes})

    def whole(self, column: int) -> np.ndarray:
        """The sample with a row of every class; `column` is that of the class."""
        there = self.rows[:, column]
        missing = [row for label, row in self.classes.items() if label not in there]
        return np.vstack([self.rows, *missing])


@dataclasses.dataclass(frozen=True, eq=False)
class RowsSeen:
    """What the rows of pieces of a table that follow one another are as numbers.

    Attributes:
        lengths: rows of each piece, those left out not counted.
        digests: a hash of the numbers of each piece.
        noticed: what a user should hear about.
        ranges: of the columns.
        tally: of the targets; None without rows.
        sample: some of the rows.
    """

    lengths: tuple[int, ...]
    digests: tuple[str, ...]
    noticed: EncodingWarnings
    ranges: Ranges
    tally: Tally | None
    sample: RowSample

    def __add__(self, other: "RowsSeen") -> "RowsSeen":
        ranges = dict(self.ranges)
        for name, own in other.ranges.items():
            ranges[name] = ranges[name] + own if name in ranges else own
        counted = self.tally if other.tally is None else other.tally
        if self.tally is not None and other.tally is not None:
            counted = self.tally + other.tally
        return RowsSeen(
            self.lengths + other.lengths,
            self.digests + other.digests,
            self.noticed + other.noticed,
            ranges,
            counted,
            self.sample + other.sample,
        )


@dataclasses.dataclass(frozen=True)
class RowSurvey:
    """Makes numbers of the rows of a part, which is a piece of a table, and keeps them there.

    Attributes:
        fit: what the numbers belong to.
        reading: how.
        starts: rows of the table before each part.
        seed: of the sample.
        labels: whether targets are the places of classes.
        check: raises for targets that the likelihood does not take.
    """

    fit: str
    reading: Reading
    starts: tuple[int, ...]
    seed: int
    labels: bool
    check: Callable[[Encoded], None]

    def __call__(self, part: Part) -> RowsSeen:
        """Of one part.

        Raises:
            DataError: for cells that cannot be used.
        """
        piece: LongTable = part.source
        none = RowSample(np.zeros((0, self.reading.width)), np.zeros(0), {})
        seen = RowsSeen((), (), EncodingWarnings(), {}, None, none)

        def noted() -> Iterator[Encoded]:
            nonlocal seen
            for encoded in self.reading.encoded(piece):
                with piece.blamed():
                    self.check(encoded)
                row = self.starts[part.index] + encoded.first - piece.start
                seen = seen + self._seen(encoded, row)
                yield encoded

        rows, digest = written(self.fit, self.reading, noted())
        return dataclasses.replace(seen, lengths=(rows,), digests=(digest,))

    def _seen(self, part: Encoded, row: int) -> RowsSeen:
        """Some rows, of which the first is this one of the table."""
        assert part.y is not None
        table = self.reading.table_of(part)
        keys = np.random.Generator(np.random.PCG64(self.seed).advance(row)).random(len(part.kept))
        classes = {}
        for label in np.unique(part.y) if self.labels else ():
            classes[float(label)] = table[np.argmax(part.y[:, 0] == label)]
        sample = RowSample(table, keys[part.kept], classes)
        weight = None if part.weight is None else part.weight[:, None]
        counted = tally(part.y, weight) if len(part.y) else None
        ranges = dataclasses.replace(self.reading.schema, ranges={}).with_rows(part.X).ranges
        return RowsSeen((), (), part.noticed, ranges, counted, sample)
