"""Numbers of things in words, and rows as text."""

from collections.abc import Sequence


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
