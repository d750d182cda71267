"""Messages for names that packages had before."""

from collections.abc import Callable, Mapping
from typing import NoReturn


def refuse_old_names(package: str, names: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """A package's `__getattr__` that names the successor of a name that is gone.

    Args:
        package: the dotted name of the package.
        names: old names, with the new ones.
    """

    def __getattr__(name: str) -> NoReturn:
        if name in names:
            raise AttributeError(f"{package}.{name} is now {package}.{names[name]}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__
