"""Model files, opened for a command by the family that they are of."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cavity.cli.session import usage
from cavity.families.base import Family, loaded
from cavity.families.table import FAMILIES
from cavity.persistence.errors import StorageError
from cavity.tables.contents import read
from cavity.tables.files import ENDINGS, check_output
from cavity.tables.fit_records import task_of
from cavity.tables.opened import family_of


@dataclasses.dataclass(frozen=True)
class Opened:
    """A model file.

    Attributes:
        model: its contents, such as a `TableModel`.
        family: one that has models of this kind.
    """

    model: Any
    family: Family

    @property
    def in_words(self) -> str:
        """The contents in words."""
        return loaded(self.family.in_words)(self.model)


def opened_to_write(path: str, command: str, out: str) -> Any:
    """The model in a file, for a command that writes a table.

    Raises:
        StorageError: as `opened`.
        DataError: where the table cannot be written; a usage error for another ending.
    """
    if Path(out).suffix.lower() not in ENDINGS:
        raise usage("--out", f"'{out}' must end in .csv or .parquet")
    model = opened(path, command).model
    check_output(out)
    return model


def opened(path: str, command: str, families: Sequence[Family] | None = None) -> Opened:
    """The contents of a model file, for a command.

    Args:
        path: the file.
        command: what is to be done with it, such as "predict".
        families: those there are; None for the package's.

    Raises:
        StorageError: if it cannot be read, is damaged, or is of a family that the command is not
            for.
    """
    families = FAMILIES if families is None else families
    held = read(path)
    family, task = family_of(held, families), task_of(held.about)
    of_task = [each for each in families if task in list(each.estimators)]
    if of_task and command not in family.commands:
        called = family.called if len(of_task) == 1 else f"a {task}"
        *others, last = (f"'cavity {each}'" for each in family.commands)
        raise StorageError(
            f"{path} holds {called}, and 'cavity {command}' is not for it; use "
            f"{', '.join(others)} or {last}"
        )
    return Opened(loaded(family.files)().read(held), family)
