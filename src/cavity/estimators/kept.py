"""Estimators in files: what is kept of one beside its posterior, and one made of that again."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from cavity.estimators.shown import AbstractShown
from cavity.families.base import Family, loaded
from cavity.learning.double_precision import in_double
from cavity.numerics.callers import warn_caller
from cavity.persistence.known_classes import Classes
from cavity.persistence.model_file import can_be_held
from cavity.persistence.typed_values import WrongValue, typed


@dataclasses.dataclass(frozen=True, eq=False)
class Kept:
    """An estimator beside its posterior, as files hold it.

    Attributes:
        family: the word of its family.
        settings: its parameters by name.
        fitted: attributes of the fit by name.
    """

    family: str
    settings: Mapping[str, Any]
    fitted: Mapping[str, Any]

    @staticmethod
    def of(value: object, name: str = "its estimator") -> "Kept":
        """Contents of a file, checked.

        Raises:
            WrongValue: if it is something else.
        """
        known = typed(value, dict[str, Any], name)
        if set(known) != {"family", "settings", "fitted"}:
            raise WrongValue(f"{name} has the parts {sorted(known)}")
        each = (typed(known[part], dict[str, Any], part) for part in ("settings", "fitted"))
        return Kept(typed(known["family"], str, "family"), *each)

    def also(self, **fitted: Any) -> "Kept":
        """The same with further attributes of the fit."""
        return dataclasses.replace(self, fitted={**self.fitted, **fitted})

    def but(self, **fitted: Any) -> "Kept":
        """The same with other attributes of the fit; those that were not there are left out."""
        known = {name: value for name, value in fitted.items() if name in self.fitted}
        return dataclasses.replace(self, fitted={**self.fitted, **known})


class AbstractKept(AbstractShown, abc.ABC):
    """An estimator that files hold.

    To implement:
        `family`, `remembered`, and `_derive`.

    Attributes:
        family: of the estimator.
        remembered: attributes of a fit that do not follow from its posterior, with the type of
            each.
    """

    family: ClassVar[Family]
    remembered: ClassVar[Mapping[str, Any]] = {}
    get_params: Callable[..., dict[str, Any]]  # of scikit-learn

    @in_double
    def save(self, path: str | Path, *, classes: Classes | None = None) -> None:
        """Writes the fitted estimator as one file, whole or not at all.

        `cavity.load` makes the same estimator of it, and so do the commands for model files, such
        as `cavity predict`. Draws of the method "mcmc" are not kept, and a generator in the place
        of a seed is not either.

        Args:
            path: the file, such as "model.cavity"; what it held before is replaced.
            classes: classes of one's own in kernels and the like, by name; `cavity.load` needs
                the same.

        Raises:
            NotFittedError: before `fit`.
            StorageError: for parts that a file cannot hold, and files that cannot be written.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "posterior_")
        files = loaded(self.family.files)()
        files.contents(self, kept=self.kept(classes)).save(path, classes=classes)

    @in_double
    def kept(self, classes: Classes | None = None) -> Kept:
        """Settings and attributes for files, beside the posterior.

        Args:
            classes: further classes by name.

        Warns:
            UserWarning: about settings that a file cannot hold, which keep their default there.
        """
        given = self.get_params(deep=False)
        settings = {n: plain(value) for n, value in given.items() if n not in self.not_kept}
        left = [name for name, value in settings.items() if not can_be_held(value, classes)]
        if left:
            have, settings_are = ("its", "setting") if len(left) == 1 else ("their", "settings")
            warn_caller(
                f"a file cannot hold the {settings_are} {', '.join(left)}: what is loaded "
                f"predicts the same, and has {have} default in another fit"
            )
        settings = {name: value for name, value in settings.items() if name not in left}
        fitted = {name: plain(getattr(self, name)) for name in self.remembered}
        return Kept(self.family.word, settings, fitted)

    @in_double
    def recall(self, posterior: Any, fitted: Mapping[str, Any]) -> Any:
        """The estimator with what is known of a fit, and all that follows from it.

        Args:
            posterior: of the fit.
            fitted: attributes by name.

        Raises:
            WrongValue: for attributes of another kind.
        """
        missing = sorted(set(self.remembered) - set(fitted))
        if missing:
            raise WrongValue(f"its estimator has no {missing[0]}")
        for name, kind in self.remembered.items():
            setattr(self, name, typed(fitted[name], kind, name))
        self._derive(posterior)
        return self

    @abc.abstractmethod
    def _derive(self, posterior: Any) -> None:
        """Sets the attributes that follow from the posterior and those that are remembered."""


@functools.singledispatch
def plain(value: object) -> Any:
    """A value as files hold it: numbers of numpy are Python's, and a generator is none."""
    if not dataclasses.is_dataclass(value):
        return value
    fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return dataclasses.replace(value, **fields)  # type: ignore[type-var]


@plain.register(type)
@plain.register(eqx.Module)
def _(value: Any) -> Any:
    return value


@plain.register(np.random.RandomState)
@plain.register(np.random.Generator)
def _(value: object) -> None:
    return None


@plain.register(np.generic)
def _(value: np.generic) -> Any:
    return value.item()


@plain.register(dict)
def _(value: dict) -> dict[Any, Any]:
    return {key: plain(each) for key, each in value.items()}


@plain.register(list)
def _(value: list) -> list[Any]:
    return [plain(each) for each in value]


@plain.register(tuple)
def _(value: tuple) -> Any:
    return tuple.__new__(type(value), map(plain, value))  # named or not


def estimator_from(family: Family, task: str, kept: Kept, posterior: Any, **further: Any) -> Any:
    """A fitted estimator of what a file holds.

    Args:
        family: of the estimator.
        task: of the estimator, one of the family's.
        kept: what the file holds beside the posterior.
        posterior: of the fit.
        **further: attributes that the file holds elsewhere.

    Raises:
        WrongValue: if its parts are not those of such an estimator.
    """
    made = loaded(family.estimators[task])
    try:
        estimator = made(**kept.settings)
    except TypeError:
        raise WrongValue(f"its estimator has the settings {sorted(kept.settings)}") from None
    for name, value in further.items():
        setattr(estimator, name, value)
    return estimator.recall(posterior, kept.fitted)
