"""Lengths of cycles among the parameters of kernels, and those that a column can determine."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from cavity.kernels.base import AbstractKernel, Active
from cavity.kernels.sum_over import SumOver
from cavity.parameters import Units

# Steps that are a smaller share of the range of a column are rounding.
ROUNDING = 1e-9
# The share of rows that must be at one phase of a step for the step to hide shorter periods.
ALIKE = 0.95


class Cycle(NamedTuple):
    """One number of a kernel that says how long a cycle is: a period, or a frequency.

    Attributes:
        path: the names of fields that lead to its array.
        index: its place in the array; () where that has one number.
        column: of the inputs, which it is about.
        power: 1 for a period, -1 for a frequency.
        value: the number itself.
    """

    path: tuple[str, ...]
    index: tuple[int, ...]
    column: int
    power: int
    value: float

    @property
    def period(self) -> float:
        """The length of the cycle, in the units of the column; infinite for frequency 0."""
        size = abs(self.value)
        return size if self.power > 0 else 1.0 / size if size > 0.0 else np.inf

    @property
    def name(self) -> str:
        """The number's dotted name, and its place where there are several."""
        return ".".join(self.path) + (f"[{', '.join(map(str, self.index))}]" * bool(self.index))


# Some lengths of cycles of a kernel, and the periods that they are to have.
Periods = tuple[tuple[Cycle, float], ...]


def cycles_of(kernel: AbstractKernel, columns: Sequence[int]) -> list[Cycle]:
    """The lengths of cycles in a kernel, column by column.

    Those of a number that is one for all columns, and of the parts of an input, are left out.

    Args:
        kernel: covariance function.
        columns: the columns of the inputs that it sees.
    """
    return _within(kernel, (), columns)


@functools.singledispatch
def _within(node: object, path: tuple[str, ...], seen: Sequence[int]) -> list[Cycle]:
    return []


@_within.register
def _(node: SumOver, path: tuple[str, ...], seen: Sequence[int]) -> list[Cycle]:
    return []  # parts have columns of their own


@_within.register
def _(node: Active, path: tuple[str, ...], seen: Sequence[int]) -> list[Cycle]:
    return _within(node.kernel, (*path, "kernel"), [seen[d] for d in node.dims])


@_within.register
def _(node: eqx.Module, path: tuple[str, ...], seen: Sequence[int]) -> list[Cycle]:
    found = []
    for field in dataclasses.fields(node):
        value, unit = getattr(node, field.name), field.metadata.get("units", Units())
        inside = (*path, field.name)
        if not unit.cycle:
            found += _within(value, inside, seen)
        elif np.ndim(value) and np.shape(value)[-1] == len(seen):
            alone = np.size(value) == 1
            found += [
                Cycle(inside, () if alone else at, seen[at[-1]], unit.input, float(number))
                for at, number in np.ndenumerate(np.asarray(value))
            ]
    return found


def with_cycles(kernel: AbstractKernel, periods: Periods) -> AbstractKernel:
    """The kernel with some lengths of cycles in the place of its own."""
    for cycle, period in periods:

        def place(node: Any, cycle: Cycle = cycle) -> Any:
            return functools.reduce(getattr, cycle.path, node)

        values = np.array(place(kernel), np.float64)
        values[cycle.index] = period**cycle.power
        kernel = eqx.tree_at(place, kernel, values)
    return kernel


class Spacing(NamedTuple):
    """Spacing of the values of a column.

    Attributes:
        step: the typical distance from one to the next; 0 where all are equal.
        short: a short distance: a tenth of them are no longer.
        span: their range and one step more: the longest period of which all phases are seen.
        even: whether next to all are whole steps apart, so that no period below two steps can be
            told from a longer one.
    """

    step: float
    short: float
    span: float
    even: bool


def spacing(x: np.ndarray) -> Spacing:
    """Spacing of the values of a column (N,)."""
    values = np.unique(x)
    reach = float(values[-1] - values[0]) if len(values) else 0.0
    steps = np.diff(values)
    steps = steps[steps > ROUNDING * reach]
    if not len(steps):
        return Spacing(0.0, 0.0, 0.0, even=False)
    short, step = map(float, np.quantile(steps, [0.1, 0.5]))
    # the step may be off by rounding: phases are looked at from one value to the next
    phase = np.exp(2j * np.pi * steps / step)
    return Spacing(step, short, reach + step, even=bool(np.abs(np.mean(phase)) > ALIKE))
