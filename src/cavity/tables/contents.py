"""Model files and estimators: a posterior, what is said of it, and what made it."""

import abc
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from cavity.estimators.kept import Kept
from cavity.families.base import Family
from cavity.persistence.errors import StorageError
from cavity.persistence.known_classes import Classes
from cavity.persistence.model_file import damaged, load_module, save_module
from cavity.persistence.typed_values import WrongValue

# An estimator, and contents of a model file.
E = TypeVar("E")
C = TypeVar("C")
K = TypeVar("K", bound="AbstractContents")


class Held(NamedTuple):
    """Contents of a file as they are stored.

    Attributes:
        path: of the file, for messages.
        posterior: of the fit.
        about: what is said of it, as JSON values.
        kept: its estimator; None in files of bare modules and of before.
    """

    path: str
    posterior: Any
    about: Mapping[str, Any]
    kept: Kept | None = None


def read(path: str | Path, classes: Classes | None = None) -> Held:
    """Contents of a file as they are stored.

    Raises:
        StorageError: if it cannot be read or is damaged.
    """
    module, about = load_module(path, classes=classes)
    if not isinstance(module, dict) or set(module) != {"posterior", "estimator"}:
        return Held(str(path), module, about)
    try:
        return Held(str(path), module["posterior"], about, Kept.of(module["estimator"]))
    except WrongValue as error:
        raise StorageError(damaged(path, str(error))) from None


def write(
    path: str | Path,
    posterior: Any,
    about: Mapping[str, Any],
    kept: Kept | None,
    classes: Classes | None = None,
) -> None:
    """Writes a file, whole or not at all.

    Raises:
        StorageError: if it cannot hold the model, or cannot be written.
    """
    module = posterior
    if kept is not None:
        module = {"posterior": posterior, "estimator": {**vars(kept)}}
    save_module(path, module, about, classes=classes)


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractContents(abc.ABC):
    """Contents of a model file of the command line."""

    kept: Kept | None = dataclasses.field(default=None, kw_only=True)

    @property
    @abc.abstractmethod
    def stored(self) -> tuple[Any, dict[str, Any]]:
        """The posterior, and what is said of it."""

    @classmethod
    @abc.abstractmethod
    def described(cls: type[K], held: Held) -> K:
        """The contents of what a file holds.

        Raises:
            StorageError: if that does not describe a table.
        """

    def save(self, path: str | Path, *, classes: Classes | None = None) -> None:
        """Writes the model as one file, whole or not at all.

        Args:
            path: the file.
            classes: further classes by name, for parts of one's own.

        Raises:
            StorageError: if it cannot be written.
        """
        write(path, *self.stored, self.kept, classes)

    @classmethod
    def load(cls: type[K], path: str | Path) -> K:
        """The model in a file that `save` wrote.

        Raises:
            StorageError: if it cannot be read, is damaged, or holds something else.
        """
        return cls.described(read(path))


class AbstractFiles(abc.ABC, Generic[E, C]):
    """The way of estimators of one kind of data into model files, and back."""

    @abc.abstractmethod
    def read(self, held: Held) -> C:
        """Contents of a file, checked.

        Raises:
            StorageError: if it holds something else.
        """

    @abc.abstractmethod
    def contents(self, estimator: E, *, kept: Kept | None = None) -> C:
        """Contents of the file of a fitted estimator.

        Args:
            estimator: fitted.
            kept: what the file is to hold of it beside its posterior; None of what is no file.

        Raises:
            StorageError: for what a file cannot hold.
        """

    @abc.abstractmethod
    def estimator(self, contents: C, family: Family, kept: Kept) -> E:
        """The estimator of a file.

        Raises:
            WrongValue: if its parts are not those of an estimator of the family.
        """
