"""Pages from templates: how they are made and written, and numbers for readers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.persistence.atomic_file import reason, whole_file, why_not_writable
from cavity.persistence.errors import DataError

if TYPE_CHECKING:
    from jinja2 import Environment
else:
    Environment = Any


def templates() -> Environment:
    """The templates of pages, with the filter `number`."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cavity.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment


def check_page(path: str | Path) -> None:
    """Complains, before long work, if a page could not be written under a name.

    Raises:
        DataError: of kind "io".
    """
    trouble = why_not_writable(Path(path))
    if trouble:
        raise DataError(trouble, kind="io")


def write_page(path: str | Path, text: str) -> None:
    """Writes a page, whole or not at all.

    Raises:
        DataError: of kind "io", if the file cannot be written.
    """
    try:
        with whole_file(Path(path)) as file:
            file.write(text.encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {reason(error)}", kind="io") from None


def number(value: float | str | None, digits: int = 4) -> str:
    """A number for a reader, a dash where there is none; a date as it is."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "–"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return f"{float(value):.{digits}g}"
