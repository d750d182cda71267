"""What a column shows of itself, part by part, and what it therefore holds."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.persistence.errors import DataError
from cavity.tables import cells

if TYPE_CHECKING:
    from polars import Series
else:
    Series = Any

MOSTLY_NUMERIC = 0.8  # from this share of numbers on, the other cells are taken for mistakes
MOST_CATEGORIES = 100
FEW_ROWS = 10  # up to here, text that differs in every row may still be a category
# Different texts of a column that is read in parts are kept up to so many.
REMEMBERED = 1_000


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What was seen of a column.

    Attributes:
        name: of the column.
        declared: what the file says that it holds; None for text.
        rows: cells, missing ones included.
        present: cells that are not missing.
        numeric: those that are numbers.
        wrong: row, from 0, and text of the first one that is no number.
        truth: whether all are true or false.
        dates: whether all are dates.
        texts: the different ones; None where there are too many to remember.
    """

    name: str
    declared: cells.Kind | None
    rows: int
    present: int = 0
    numeric: int = 0
    wrong: tuple[int, str] | None = None
    truth: bool = True
    dates: bool = True
    texts: frozenset[str] | None = frozenset()

    def __add__(self, other: "Evidence") -> "Evidence":
        """That of a column of which `other` is the next part."""
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
            dates=self.dates and other.dates,
            texts=None if texts is not None and len(texts) > REMEMBERED else texts,
        )

    def check_numbers(self) -> None:
        """Refuses a column of text that is no number, naming the first such cell."""
        if self.wrong is not None:
            raise cells.not_a_number(self.name, *self.wrong)

    def kind(self) -> cells.Kind:
        """What the column holds.

        Raises:
            DataError: for dates, empty columns, and text that is nearly all numbers (naming the
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
        if self.numeric == self.present:
            return "numeric"
        if self.truth:
            return "boolean"
        if self.numeric >= MOSTLY_NUMERIC * self.present:
            self.check_numbers()
        if self.dates:
            raise DataError(cells.dates(self.name))
        return "categorical"

    def categories(self) -> tuple[str, ...]:
        """The distinct texts of a column in alphabetical order.

        Raises:
            DataError: if they are too many to be categories.
        """
        found = self.distinct()
        different = len(found) == self.present > FEW_ROWS
        if different or len(found) > MOST_CATEGORIES:
            many = f"{len(found)} different texts"
            many = "a different text in every row" if different else many
            raise DataError(
                f"column '{self.name}' holds {many} (such as '{found[0]}'): too many to be "
                f"categories (at most {MOST_CATEGORIES}); leave it out with --ignore "
                f"{self.name}, or turn it into numbers first"
            )
        return found

    def distinct(self) -> tuple[str, ...]:
        """The distinct texts of a column in alphabetical order.

        Raises:
            DataError: where there were too many to remember.
        """
        if self.texts is None:
            raise DataError(
                f"column '{self.name}' holds more than {REMEMBERED} different texts, too many to "
                f"be categories or classes; leave it out with --ignore {self.name}, or turn it "
                "into numbers first"
            )
        return tuple(sorted(self.texts))


def evidence(column: Series) -> Evidence:
    """What a column, or a part of it, shows.

    Raises:
        DataError: for dates, and types that are no single values.
    """
    import polars as pl

    rows = len(column)
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return Evidence(column.name, "boolean" if column.dtype == pl.Boolean else "numeric", rows)
    cells.refuse_other_types(column)
    found = cells.text(column)
    present, texts = found.drop_nulls(), found.drop_nulls().unique()
    if column.dtype != pl.String:
        declared = "categorical" if column.dtype != pl.Null else None
        return Evidence(column.name, declared, rows, len(present), texts=frozenset(texts))
    wrong = (found.is_not_null() & found.cast(pl.Float64, strict=False).is_null()).to_numpy()
    first = int(np.argmax(wrong)) if wrong.any() else None
    return Evidence(
        name=column.name,
        declared=None,
        rows=rows,
        present=len(present),
        numeric=len(present) - int(wrong.sum()),
        wrong=None if first is None else (first, found[first]),
        truth=bool(texts.str.to_lowercase().is_in(["true", "false"]).all()),
        dates=all(cells.is_date(text) for text in texts),
        texts=frozenset(texts),
    )
