"""Pages from the one template: how they are made and written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.persistence.atomic_file import reason, whole_file, why_not_writable
from cavity.persistence.errors import DataError
from cavity.report.convergence import unconverged
from cavity.report.sections import Code, Head, Section, number

if TYPE_CHECKING:
    from jinja2 import Environment
else:
    Environment = Any


def _templates() -> Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cavity.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["pieces"] = lambda words: words if isinstance(words, tuple) else (words,)
    environment.filters["unbroken"] = lambda text: text.replace(" %", "\u00a0%")
    environment.tests["code"] = lambda piece: isinstance(piece, Code)
    return environment


def check_page(path: str | Path) -> None:
    """Complains, before long work, if a page could not be written under a name.

    Raises:
        DataError: of kind "io".
    """
    trouble = why_not_writable(Path(path))
    if trouble:
        raise DataError(trouble, kind="io")


def write_page(
    path: str | Path, record: Mapping[str, Any], head: Head, sections: Sequence[Section | None]
) -> None:
    """Writes a page, whole or not at all.

    Args:
        path: the file; what it held before is replaced.
        record: of the fit, which says whether it converged.
        head: the top of the page.
        sections: in their order; None is left out.

    Raises:
        DataError: of kind "io", if the file cannot be written.
    """
    from importlib.metadata import version

    text = (
        _templates()
        .get_template("page.html")
        .render(
            version=version("cavity"),
            head=head,
            unconverged=unconverged(record),
            message=record["message"],
            sections=[section for section in sections if section is not None],
        )
    )
    try:
        with whole_file(Path(path)) as file:
            file.write(text.encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {reason(error)}", kind="io") from None
