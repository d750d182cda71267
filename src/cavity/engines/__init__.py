"""Engines: what works on the parts of a table, `cavity.fit(model, parts, engine=...)`.

`InProcess()` is what is used where none is given, and `Dask(client)` works in the processes of a
Dask cluster. Another is a class derived from `AbstractEngine` with one method, which applies a
function to every part.
"""

from cavity.engines.dask import Dask
from cavity.learning.engines.base import AbstractEngine, InProcess, Part
from cavity.learning.failures import EngineError

__all__ = ["AbstractEngine", "Dask", "EngineError", "InProcess", "Part"]


def __dir__() -> list[str]:
    return __all__
