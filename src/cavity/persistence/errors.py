"""Errors in files and data, with messages that a user can act on."""

from typing import Literal

from cavity.numerics.text import quoted, told

Kind = Literal["data", "model", "io", "numerical"]


class DataError(ValueError):
    """A table that cannot be used: what was found, what was expected, what to do.

    Args:
        message: the whole story, in plain words.
        kind: "data" for the contents of a table, "io" for a file that cannot be read or written,
            "numerical" for computations that data made impossible.
    """

    def __init__(self, message: str, *, kind: Kind = "data"):
        super().__init__(told(message))
        self.kind: Kind = kind


class CellError(DataError):
    """A cell that cannot be used.

    Args:
        column: its name.
        row: its row, counted from 0 without the header.
        story: what is wrong with it, and what to do.
    """

    def __init__(self, column: str, row: int, story: str):
        super().__init__(f"column {quoted(column)}, row {row + 1}: {story}")
        self.column, self.row, self.story = column, row, story

    def __reduce__(self) -> tuple[type["CellError"], tuple[str, int, str]]:
        return type(self), (self.column, self.row, self.story)

    def further_down(self, rows: int) -> "CellError":
        """The same of a table in which so many rows come before."""
        return CellError(self.column, self.row + rows, self.story)


class StorageError(ValueError):
    """A model file or a checkpoint that cannot be written, read or trusted.

    Args:
        message: the whole story, in plain words.
        kind: "model" for one that is damaged or of something else, "io" for one
            that cannot be read or written.
    """

    def __init__(self, message: str, *, kind: Kind = "model"):
        super().__init__(told(message))
        self.kind: Kind = kind
