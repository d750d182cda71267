"""Numbers of things in words, rows as text, and texts of others as they may stand in ours."""

import re
from collections.abc import Sequence

# Letters of a cell or a name that are quoted, and of a message.
QUOTED, TOLD = 60, 2_000
# What moves the cursor of a terminal, colours it, or turns the direction of writing.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plural(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun: "1 row", "2 rows".

    Args:
        number: how many.
        noun: of one.
        plural: of several, where it is not the noun with an s.
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def aligned(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Rows of cells as text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in rows)
    return "\n".join(indent + line.rstrip() for line in lines)


def printable(text: str, keep: str = "") -> str:
    r"""A text with `\x1b` and the like for control characters, but for some that are kept."""

    def written(found: re.Match[str]) -> str:
        letter = found[0]
        return letter if letter in keep else letter.encode("unicode_escape").decode()

    return _CONTROL.sub(written, text)


def shortened(text: object) -> str:
    """A cell or a name, not too long and without control characters."""
    whole = str(text)
    return printable(whole if len(whole) <= QUOTED else f"{whole[:QUOTED]}...")


def quoted(text: object) -> str:
    """The same in quotes, with its length where it is cut."""
    count = len(str(text))
    return f"'{shortened(text)}'" + (f" ({count} characters)" if count > QUOTED else "")


def told(message: str, keep: str = "") -> str:
    """A message as it may be printed: without control characters, its middle left out if long."""
    if len(message) > TOLD:
        half, left_out = TOLD // 2, len(message) - TOLD
        message = f"{message[:half]} ... ({left_out} characters) ... {message[-half:]}"
    return printable(message, keep)


def one_line(text: str) -> str:
    """A text with its lines in one, unless one of them may end in a comment."""
    return text.strip() if "#" in text else " ".join(text.split("\n")).strip()
