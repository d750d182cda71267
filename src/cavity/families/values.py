"""Values that a setting takes, refused with what is wanted and what was given."""

import abc
import dataclasses
from collections.abc import Collection
from numbers import Integral, Real


def one_of(name: str, value: object, known: Collection[str]) -> str:
    """The value, if it is a known one.

    Raises:
        ValueError: naming the known values.
    """
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {sorted(known)}, given {value!r}")
    return value


def is_word(value: object, word: str) -> bool:
    """True if a value is this word; it may be an array, which compares by entries."""
    return isinstance(value, str) and value == word


def whole(name: str, value: object, least: int, otherwise: str = "") -> int:
    """The value as an int, if it is a whole number that is large enough.

    Raises:
        ValueError: saying what is wanted (or `otherwise`), and what was given.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        wanted = f"{otherwise}a whole number of at least {least}"
        raise ValueError(f"{name} must be {wanted}, given {value!r}")
    return int(value)


class AbstractValues(abc.ABC):
    """Values that a setting takes."""

    @abc.abstractmethod
    def check(self, name: str, value: object) -> None:
        """Refuses a value that is none of them.

        Args:
            name: of the setting.
            value: what was given for it.

        Raises:
            ValueError: saying what is wanted, and what was given.
        """


@dataclasses.dataclass(frozen=True)
class Anything(AbstractValues):
    """All values: what is wrong with one is found where it is used."""

    def check(self, name: str, value: object) -> None:
        """Refuses nothing."""


@dataclasses.dataclass(frozen=True)
class Whole(AbstractValues):
    """Whole numbers.

    Attributes:
        least: the smallest.
        none: the meaning of None, where that is a value too.
    """

    least: int
    none: str = ""

    def check(self, name: str, value: object) -> None:
        """Refuses what is no whole number, or too small."""
        if value is not None or not self.none:
            whole(name, value, self.least, f"None ({self.none}) or " if self.none else "")


@dataclasses.dataclass(frozen=True)
class Number(AbstractValues):
    """Numbers from 0 on.

    Attributes:
        most: the largest.
    """

    most: float

    def check(self, name: str, value: object) -> None:
        """Refuses what is no number, negative or too large."""
        number = value if isinstance(value, Real) and not isinstance(value, bool) else -1.0
        if not 0.0 <= float(number) <= self.most:
            raise ValueError(f"{name} must be a number in [0, {self.most:g}], given {value!r}")


@dataclasses.dataclass(frozen=True)
class Names(AbstractValues):
    """Some names.

    Attributes:
        known: all of them.
        objects: whether anything that is no text is a value too, and is looked at elsewhere.
    """

    known: tuple[str, ...]
    objects: bool = False

    def check(self, name: str, value: object) -> None:
        """Refuses other names."""
        if isinstance(value, str) or not self.objects:
            one_of(name, value, self.known)


@dataclasses.dataclass(frozen=True)
class WholeOrNames(AbstractValues):
    """Whole numbers from 1 on, and some names.

    Attributes:
        known: the names.
        objects: whether anything else is a value too, and is looked at elsewhere.
    """

    known: tuple[str, ...]
    objects: bool = False

    def check(self, name: str, value: object) -> None:
        """Refuses other names, and numbers that are no whole ones or below 1."""
        if isinstance(value, str) and value in self.known:
            return
        if isinstance(value, Real | str) or not self.objects:
            whole(name, value, 1, f"{', '.join(map(repr, self.known))} or ")


@dataclasses.dataclass(frozen=True)
class Truth(AbstractValues):
    """True and False."""

    def check(self, name: str, value: object) -> None:
        """Refuses everything else, but for truth values of numpy."""
        if type(value).__name__ not in ("bool", "bool_"):
            raise ValueError(f"{name} must be True or False, given {value!r}")
