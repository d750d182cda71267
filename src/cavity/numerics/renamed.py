"""Messages for names that packages had before."""

from collections.abc import Callable, Mapping
from typing import Any


def refuse_old_names(
    package: str, names: Mapping[str, str], find: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """A package's `__getattr__` that names the successor of a name that is gone.

    Args:
        package: the dotted name of the package.
        names: old names, with the new ones.
        find: gives the names of a package that loads them lazily.
    """

    def __getattr__(name: str) -> Any:
        if name in names:
            raise AttributeError(f"{package}.{name} is now {package}.{names[name]}")
        if find is not None:
            return find(name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__
