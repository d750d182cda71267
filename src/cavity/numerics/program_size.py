"""Size of a program: its operations, and the array entries that a call of it computes."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

# Turns of a loop whose end depends on what it computes.
TURNS = 10
# Entries that take as long as it takes to begin an operation.
LEAST = 16


class ProgramSize(NamedTuple):
    """The size of a program.

    Attributes:
        operations: how many there are, those of loops counted once.
        entries: array entries that a call computes, at least 16 an operation, with each turn of a
            loop, and the least of several branches.
    """

    operations: int
    entries: int


def program_size(jaxpr: Jaxpr | ClosedJaxpr) -> ProgramSize:
    """The size of what JAX traced, a closed jaxpr or a jaxpr."""
    operations = entries = 0
    for equation in (jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr).eqns:
        name, params = equation.primitive.name, equation.params
        inner = [program_size(part) for part in _parts(params)]
        each = [size.entries for size in inner]
        operations += 1 + sum(size.operations for size in inner)
        if not inner:
            shapes: list[Any] = [out.aval for out in equation.outvars]
            entries += max(sum(int(np.prod(shape.shape)) for shape in shapes), LEAST)
        elif name == "cond":
            entries += min(each)
        else:
            turns = {"scan": params.get("length", 1), "while": TURNS}.get(name, 1)
            entries += turns * sum(each)
    return ProgramSize(operations, entries)


def _parts(params: dict[str, Any]) -> Iterator[Any]:
    """The jaxprs within an operation: the bodies of loops, branches and inner functions."""
    for value in params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, Jaxpr | ClosedJaxpr):
                yield part
