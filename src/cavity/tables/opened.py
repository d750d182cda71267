"""Fitted estimators from model files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cavity.families.base import Family, loaded
from cavity.families.table import FAMILIES
from cavity.learning.double_precision import in_double
from cavity.persistence.errors import StorageError
from cavity.persistence.known_classes import Classes
from cavity.persistence.model_file import damaged
from cavity.persistence.typed_values import WrongValue
from cavity.tables.contents import AbstractFiles, Held, read
from cavity.tables.fit_records import task_of


@in_double
def load(path: str | Path, *, classes: Classes | None = None) -> Any:
    """The fitted estimator in a model file, of `estimator.save` or of `cavity fit`.

    Args:
        path: the file.
        classes: classes of one's own in kernels and the like, by name, as given to `save`.

    Returns:
        An estimator such as `GPRegressor`, with its settings and all fitted attributes but
        `chains_`. One that was fitted to a table reads data frames with the columns of that.

    Raises:
        StorageError: of kind "io" if the file cannot be read; of kind "model" if it is damaged, or
            holds no estimator.
    """
    held = read(path, classes)
    if held.kept is None:
        raise StorageError(
            f"{path} holds a model without its estimator: it is a module, for "
            "cavity.fitting.load_module, or was written before files held estimators: fit it again"
        )
    family = family_of(held, FAMILIES)
    if family.word != held.kept.family:
        known = ", ".join(each.word for each in FAMILIES)
        raise StorageError(
            f"{path} holds an estimator of the family '{held.kept.family}', and there are "
            f"{known}: use the version that wrote it, or a newer one"
        )
    files: AbstractFiles = loaded(family.files)()
    contents = files.read(held)
    try:
        return files.estimator(contents, family, held.kept)
    except (WrongValue, KeyError, AttributeError) as error:
        raise StorageError(damaged(path, str(error))) from None


def family_of(held: Held, families: Sequence[Family]) -> Family:
    """The family that a file is of; by its task where it is of none of these, or does not say."""
    task, word = task_of(held.about), None if held.kept is None else held.kept.family
    told = [each for each in families if each.word == word]
    return [*told, *(each for each in families if task in list(each.estimators)), families[0]][0]
