"""Parts of a page: sections of paragraphs, tables and pictures, which one template shows.

Words are a text, a `Code`, a number, or some of these one after another. A function that makes a
section gives None where it has nothing to say.
"""

import base64
import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np


class Code(str):
    """A text that stands as code."""


Word = str | float | None
Words = Word | tuple[Word, ...]


@dataclasses.dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str
    kind: ClassVar = "heading"


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """A paragraph; its style is "small" or "note", or empty."""

    words: Words
    style: str = ""
    kind: ClassVar = "paragraph"


@dataclasses.dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    sentences: Sequence[str]
    kind: ClassVar = "bullets"


@dataclasses.dataclass(frozen=True)
class Table:
    """A table, folded under a title where it has more than so many rows.

    Attributes:
        head: names of the columns; ">" in front of one marks numbers, "~" names that may break
            anywhere. Without any, the first column tells what the second is.
        rows: cells; the last one of a short row spans the columns that are left.
        title: what stands for the table while it is folded.
        most: rows up to which it is open.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Words]]
    title: str = ""
    most: float = np.inf
    kind: ClassVar = "table"

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names and style classes of the columns."""
        styles = {">": "n", "~": "name"}
        return [(name.lstrip(">~"), styles.get(name[:1], "")) for name in self.head]


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes:
        name: what `cavity report --json` lists.
        title: its heading.
        alt: what it shows, in words.
        caption: how to read it.
        svg: the file.
    """

    name: str
    title: str
    alt: str
    caption: str
    svg: str
    kind: ClassVar = "picture"

    @property
    def source(self) -> str:
        """The file as an address that holds its own contents."""
        data = base64.b64encode(self.svg.encode()).decode()
        return f"data:image/svg+xml;base64,{data}"


Part = Heading | Paragraph | Bullets | Table | Picture


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a page under one heading; a picture of the same title needs none of its own."""

    title: str
    parts: Sequence[Part]


class Head(NamedTuple):
    """The top of a page.

    Attributes:
        title: of the page.
        lead: what it is about.
        tiles: names and values of the most important numbers.
        notes: what must be known to read it.
    """

    title: str
    lead: Words
    tiles: Sequence[tuple[str, str]]
    notes: Sequence[Paragraph]


def figure_names(sections: Iterable[Section | None]) -> list[str]:
    """The names of the pictures of some sections."""
    parts = [part for section in sections if section for part in section.parts]
    return [part.name for part in parts if isinstance(part, Picture)]


@functools.singledispatch
def number(value: Word, digits: int = 4) -> str:
    """A number for a reader, a dash where there is none; a date as it is."""
    raise TypeError(type(value).__name__)


@number.register(str)
def _(value: str, digits: int = 4) -> str:
    return value


@number.register(type(None))
def _(value: None, digits: int = 4) -> str:
    return "–"


@number.register(int)
@number.register(np.integer)
def _(value: int | np.integer, digits: int = 4) -> str:
    return f"{value:,}"


@number.register(float)
@number.register(np.floating)
def _(value: float | np.floating, digits: int = 4) -> str:
    return f"{float(value):.{digits}g}" if np.isfinite(value) else "–"


def counted(count: int, noun: str) -> str:
    """A number of things, with a mark between thousands: "1 row", "2,000 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(share: float, digits: int = 0) -> str:
    """A share for a reader, a dash where there is none."""
    return f"{100 * share:.{digits}f} %" if np.isfinite(share) else "–"
