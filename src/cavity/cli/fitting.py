"""Work that `cavity fit` does for a family: a table read, an estimator, a model file."""

import abc
from typing import Any, Generic, TypeVar

from cavity.cli.asked import Asked
from cavity.cli.request import Request
from cavity.cli.session import Session
from cavity.families.base import loaded
from cavity.learning.engines.base import AbstractEngine
from cavity.tables.row_source import Passes

# An estimator, and contents of a model file.
E = TypeVar("E")
C = TypeVar("C")


class AbstractFitting(abc.ABC, Generic[E, C]):
    """`cavity fit` for the families of one kind of table; `run_fit` calls these in their order.

    Args:
        session: for warnings and notes.
        asked: what is asked for.

    Attributes:
        engine: what works on parts of the table; None for this process.
    """

    def __init__(self, session: Session, asked: Asked):
        self.session, self.asked = session, asked
        self.engine: AbstractEngine | None = None

    @property
    def request(self) -> Request:
        """The options of all families."""
        return self.asked.request

    @abc.abstractmethod
    def check(self) -> None:
        """Raises a usage error for what is wrong before any file is opened."""

    @abc.abstractmethod
    def read(self) -> None:
        """Opens the tables; raises DataError for what cannot be used in them."""

    @abc.abstractmethod
    def estimator(self) -> E:
        """An estimator to fit."""

    @abc.abstractmethod
    def data(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the estimator's `fit`."""

    @abc.abstractmethod
    def saved(self, estimator: E) -> C:
        """Contents of the model file of a fitted estimator, with a `record`."""

    def tested(self, saved: C) -> C | None:
        """The contents with scores on the test table, where there is one; else None."""
        return None

    @property
    def samples(self) -> bool:
        """True if the fit draws, and has no evidence to show."""
        return False

    @property
    def passes(self) -> Passes | None:
        """Told of passes over a table that is read in parts; None for others."""
        return None

    def end(self) -> None:
        """Drops what was kept for the fit."""


def estimator_of(asked: Asked, task: str, **settings: Any) -> Any:
    """The estimator of a family for a task, with the settings that were given.

    Args:
        asked: what is asked for.
        task: such as "regression".
        **settings: in place of those.
    """
    return loaded(asked.family.estimators[task])(**asked.parameters | settings)
