"""Notations: formats of dates and numerals in columns that polars reads as text.

A notation turns a column into numbers (`numbers`), in fits and in all later tables.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from cavity.columns.dates import Dates
from cavity.columns.numerals import Numerals
from cavity.persistence.typed_values import typed

Notation = Dates | Numerals


def notation_record(notation: Notation) -> dict[str, Any]:
    """A notation as JSON values."""
    name = "dates" if isinstance(notation, Dates) else "numerals"
    return {name: dataclasses.asdict(notation)}


def notation_from(record: Mapping[str, Any]) -> Notation:
    """Inverse of `notation_record`.

    Raises:
        WrongValue: if it is something else.
    """
    if "dates" in record:
        return typed(record["dates"], Dates, "dates")
    return typed(record.get("numerals"), Numerals, "numerals")


def dates_of(notation: Notation | None) -> Dates | None:
    """The notation of a column of dates; None of any other."""
    return notation if isinstance(notation, Dates) else None


def dates_in(notations: Mapping[str, Notation | None]) -> dict[str, Dates]:
    """The notations of columns of dates, by name."""
    found = {name: dates_of(notation) for name, notation in notations.items()}
    return {name: dates for name, dates in found.items() if dates is not None}
