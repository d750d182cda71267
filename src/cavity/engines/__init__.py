"""Engines: what works on the parts of a table, `cavity.fit(model, parts, engine=...)`.

`InProcess()` is what is used where none is given. Another is a class derived from
`AbstractEngine` with one method, which applies a function to every part.
"""

from cavity.learning.engines.base import AbstractEngine, InProcess, Part

__all__ = ["AbstractEngine", "InProcess", "Part"]


def __dir__() -> list[str]:
    return __all__
