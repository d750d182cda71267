"""Evidence about the type of a column, part by part, and the type that follows."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from cavity.columns import cells
from cavity.columns.date_evidence import (
    DateEvidence,
    date_evidence,
    dateless_evidence,
    typed_evidence,
)
from cavity.columns.dates import refuse_durations
from cavity.columns.frames import Series, floats
from cavity.columns.notation import Notation
from cavity.columns.numerals import NumeralEvidence, numeral_evidence
from cavity.numerics.text import plural
from cavity.persistence.errors import DataError

MOSTLY_NUMERIC = 0.8  # from this share of numbers on, the other cells are taken for mistakes
MOST_CATEGORIES = 100
FEW_ROWS = 10  # up to here, text that differs in every row may still be a category
# Different texts of a column that is read in parts are kept up to so many.
REMEMBERED = 1_000
_MEASURED = re.compile(r"[^\d]{0,4}\d[\d.,' ]*[^\d]{0,5}")


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Evidence about the type of a column.

    Attributes:
        name: of the column.
        declared: what the file says that it holds; None for text.
        rows: cells, missing ones included.
        present: cells that are not missing.
        numeric: those that are numbers.
        wrong: row, from 0, and text of the first one that is no number.
        truth: whether all are true or false.
        dates: those that are dates.
        numerals: those that are numbers, written in any way.
        texts: the different ones; None where there are too many to remember.
    """

    name: str
    declared: cells.Kind | None
    rows: int
    present: int = 0
    numeric: int = 0
    wrong: tuple[int, str] | None = None
    truth: bool = True
    dates: DateEvidence = DateEvidence()
    numerals: NumeralEvidence = NumeralEvidence()
    texts: frozenset[str] | None = frozenset()

    def __add__(self, other: "Evidence") -> "Evidence":
        """Evidence about this column followed by `other`."""
        wrong = self.wrong
        if wrong is None and other.wrong is not None:
            wrong = (other.wrong[0] + self.rows, other.wrong[1])
        texts = None
        if self.texts is not None and other.texts is not None:
            texts = self.texts | other.texts
        return dataclasses.replace(
            self,
            declared=self.declared or other.declared,
            rows=self.rows + other.rows,
            present=self.present + other.present,
            numeric=self.numeric + other.numeric,
            wrong=wrong,
            truth=self.truth and other.truth,
            dates=self.dates.followed_by(other.dates, self.rows),
            numerals=self.numerals.followed_by(other.numerals, self.rows),
            texts=None if texts is not None and len(texts) > REMEMBERED else texts,
        )

    def check_numbers(self) -> None:
        """Refuses a column of text that is no number, naming the first such cell."""
        if self.wrong is not None:
            raise cells.not_a_number(self.name, *self.wrong)

    @property
    def may_have_commas(self) -> bool:
        """True if other numbers result when points are read as thousands separators."""
        return self.numerals.commas == self.present and self.numerals.two_ways is not None

    def notation(self) -> Notation | None:
        """Parser for cells that are not plain numbers, or None if the column holds no such cells.

        Raises:
            DataError: for dates of several forms, and dates and numbers that can be read in
                several ways.
        """
        if self.declared is not None or self.numeric == self.present or self.truth:
            return None
        dates = self.dates.dates(self.name)
        return dates or self.numerals.numerals(self.name, self.present)

    def kind(self) -> cells.Kind:
        """Type of the column.

        Raises:
            DataError: for empty columns, and text that is nearly all numbers or dates (naming the
                first cell that is not).
        """
        if self.declared in ("numeric", "boolean"):
            return self.declared
        if not self.present:
            raise DataError(
                f"column '{self.name}' is empty in every row; leave it out with "
                f"--ignore {self.name}"
            )
        if self.declared is not None:
            return self.declared
        if self.numeric == self.present or self.notation() is not None:
            return "numeric"
        if self.truth:
            return "boolean"
        if self.numeric >= MOSTLY_NUMERIC * self.present:
            self.check_numbers()
        return "categorical"

    @property
    def many_texts(self) -> str | None:
        """Count of different texts, in words, where they are too many to be categories."""
        rows, count = plural(self.present, "row"), len(self.texts or ())
        if self.texts is None:
            return f"more than {REMEMBERED} different texts in {rows}"
        if count == self.present > FEW_ROWS:
            return f"a different text in every row of {self.present}"
        return f"{count} different texts in {rows}" if count > MOST_CATEGORIES else None

    def distinct(self) -> tuple[str, ...]:
        """The distinct texts of a column in alphabetical order.

        Raises:
            DataError: where there were too many to remember.
        """
        if self.texts is None:
            raise DataError(
                f"column '{self.name}' holds {self.many_texts}, too many to be categories or "
                f"classes; leave it out with --ignore {self.name}, or turn it into numbers first"
            )
        return tuple(sorted(self.texts))


def refuse_many_texts(columns: Sequence[Evidence]) -> None:
    """Refuses columns of text with too many values to be categories, all in one message."""
    many = [column for column in columns if column.many_texts]
    if not many:
        return
    listed = "; ".join(f"column '{c.name}' holds {c.many_texts}{_sample(c)}" for c in many)
    ignored = " ".join(f"--ignore {c.name}" for c in many)
    it, measured = ("it", [c for c in many if _with_units(c)])
    if len(many) > 1:
        it = "them"
    units = ""
    if measured:
        units = f" (of '{measured[0].name}': write the numbers alone, without signs or units)"
    raise DataError(
        f"{listed}: too many to be categories (at most {MOST_CATEGORIES}, and some rows of each), "
        f"for names, identifiers and free text say nothing of other rows; leave {it} out with "
        f"{ignored}, or turn {it} into numbers or fewer categories first{units}"
    )


def _sample(column: Evidence) -> str:
    return f" (such as '{min(column.texts)}')" if column.texts else ""


def _with_units(column: Evidence) -> bool:
    """True if the texts are numbers with something around them."""
    return bool(column.texts) and all(_MEASURED.fullmatch(text) for text in column.texts or ())


def evidence(column: Series) -> Evidence:
    """Evidence about the type of a column, or of a part of it.

    Raises:
        DataError: for types that are no single values.
    """
    import polars as pl

    rows = len(column)
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return Evidence(column.name, "boolean" if column.dtype == pl.Boolean else "numeric", rows)
    if column.dtype.is_temporal():
        refuse_durations(column)
        present = rows - column.null_count()
        return Evidence(
            column.name, None, rows, present, truth=False, dates=typed_evidence(column)
        )
    cells.refuse_other_types(column)
    cell = cells.text(column)
    present, texts = cell.drop_nulls(), cell.drop_nulls().unique()
    if column.dtype != pl.String:
        declared = "categorical" if column.dtype != pl.Null else None
        return Evidence(column.name, declared, rows, len(present), texts=frozenset(texts))
    values = floats(cell, strict=False)
    wrong = (cell.is_not_null() & values.is_null()).to_numpy()
    first = int(np.argmax(wrong)) if wrong.any() else None
    return Evidence(
        name=column.name,
        declared=None,
        rows=rows,
        present=len(present),
        numeric=len(present) - int(wrong.sum()),
        wrong=None if first is None else (first, cell[first]),
        truth=bool(texts.str.to_lowercase().is_in(["true", "false"]).all()),
        dates=date_evidence(cell) if wrong.any() else dateless_evidence(cell),
        numerals=numeral_evidence(cell, values),
        texts=frozenset(texts),
    )
