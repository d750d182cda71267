"""Kernels as text: writing."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity.kernels.base import AbstractKernel, Active, Product, Scaled, Sum
from cavity.kernels.patch_text import CONV, checked_patches, patch_columns, write_patches
from cavity.kernels.random_fourier import RandomFourier
from cavity.kernels.sum_over import SumOver
from cavity.kernels.text_syntax import column_text
from cavity.kernels.words import FOURIER, WORDS
from cavity.numerics.tree import named


def text(
    kernel: AbstractKernel, names: Sequence[str] | None = None, *, values: bool = True
) -> str:
    """The text form of a kernel.

    Sums over patches of whole inputs have one. Sums over other parts have none: what they are is
    in numbers, the permutations of an `Orbit` or the ranges of `Warps`.

    Args:
        kernel: made of the kernels that have a name.
        names: the names of the input columns; numbers are written without them.
        values: whether to write the values of parameters too, where they are not those that
            `parse` gives them; without them factors have six digits.

    Returns:
        What `parse` reads as the same kernel, or as one of the same structure.

    Raises:
        ValueError: for a kernel that has no name, and for sums over other parts.

    Example:
        >>> from cavity.kernels import RBF, text
        >>> text(0.5 * RBF(lengthscale=[2.0, 3.0]))
        '0.5 * rbf(lengthscale=(2, 3))'
    """
    return _Writer([*map(str, names or ())], values).write(kernel, None).text


class _Written(NamedTuple):
    """The text of a kernel, and how tight it is: 0 for a sum, 1 for a product, 2 for a name."""

    text: str
    binding: int = 2

    def beside(self, binding: int) -> str:
        """The text as a part of an operation, in parentheses where it would be read wrongly."""
        return f"({self.text})" if self.binding < binding else self.text


@dataclasses.dataclass(frozen=True)
class _Writer:
    """Texts of the parts of a kernel.

    Attributes:
        names: of the input columns, or none.
        values: whether values of parameters are written.
    """

    names: list[str]
    values: bool

    @functools.singledispatchmethod
    def write(self, kernel: AbstractKernel, columns: list[int] | None) -> _Written:
        return _Written(self.named(kernel) + self.listed(columns))

    @write.register
    def _(self, kernel: Active, columns: list[int] | None) -> _Written:
        inside = [d if columns is None else columns[d] for d in kernel.dims]
        return self.write(kernel.kernel, inside)

    @write.register
    def _(self, kernel: Sum, columns: list[int] | None) -> _Written:
        first, second = (self.write(k, columns) for k in (kernel.first, kernel.second))
        return _Written(f"{first.text} + {second.beside(1)}", 0)

    @write.register
    def _(self, kernel: Product, columns: list[int] | None) -> _Written:
        first, second = (self.write(k, columns) for k in (kernel.first, kernel.second))
        return _Written(f"{first.beside(1)} * {second.beside(2)}", 1)

    @write.register
    def _(self, kernel: Scaled, columns: list[int] | None) -> _Written:
        inside, factor = self.write(kernel.kernel, columns), float(kernel.factor)
        number = _numbers(factor) if self.values else f"{factor:.6g}"
        return _Written(f"{number} * {inside.beside(2)}", 1)

    @write.register
    def _(self, kernel: SumOver, columns: list[int] | None) -> _Written:
        parts = checked_patches(kernel.parts, columns)
        base = _Writer(patch_columns(parts)[1], self.values).write(kernel.base, None)
        return _Written(write_patches(parts, base.text, self.weights(kernel)))

    @write.register
    def _(self, kernel: RandomFourier, columns: list[int] | None) -> _Written:
        waves, inside = kernel.frequencies.shape[0], self.named(kernel.kernel)
        return _Written(f"{FOURIER}({inside}{self.listed(columns)}, {waves})")

    def listed(self, columns: list[int] | None) -> str:
        """The columns in brackets; nothing where they are all."""
        chosen = [_column_name(d, self.names) for d in columns or []]
        return f"[{','.join(chosen)}]" if chosen else ""

    def weights(self, kernel: SumOver) -> str:
        """The argument for the weights of a sum; empty where they are no parameters."""
        if kernel.weights is None:
            return ""
        alike = not self.values or np.all(np.asarray(kernel.weights) == 1.0)
        return "True" if alike else str(tuple(np.asarray(kernel.weights).tolist()))

    def named(self, kernel: AbstractKernel) -> str:
        """The name of a kernel, with the values that are not those that it is built with."""
        for name, word in WORDS.items():
            if word.kernel is not type(kernel):
                continue
            number = 0 if word.number is None else word.number(kernel)
            written = name if word.number is None else f"{name}{number}"
            if not self.values:
                return written
            own = _parameters(kernel)
            widest = max(own.values(), key=np.ndim)
            columns = widest.shape[-1] if widest.ndim else 1
            usual = _parameters(word.build(columns, number, None))
            given = [
                f"{each}={_numbers(value)}"
                for each, value in own.items()
                if not _same(value, usual[each])
            ]
            return written + f"({', '.join(given)})" * bool(given)
        raise ValueError(
            f"{type(kernel).__name__} has no text form; kernels that have one: "
            f"{', '.join([*WORDS, FOURIER, CONV])}"
        )


def _parameters(kernel: AbstractKernel) -> dict[str, np.ndarray]:
    """Parameters by name."""
    return {name: np.asarray(value) for name, value in named(kernel).items()}


def _numbers(value: Any) -> str:
    """Numbers to the last digit: one where all are equal, tuples otherwise."""
    value = np.asarray(value, np.float64)
    return _tuples(value.item(0) if np.all(value == value.item(0)) else value)


def _tuples(value: np.ndarray | float) -> str:
    if not np.ndim(value):
        return repr(float(value)).removesuffix(".0")
    inside = [_tuples(each) for each in np.asarray(value)]
    return f"({', '.join(inside)}{',' * (len(inside) == 1)})"


def _same(value: np.ndarray, usual: np.ndarray) -> bool:
    """True where a parameter has its usual value, or that for all columns at once."""
    return bool(np.all(value == (usual if value.shape == usual.shape else usual.item(0))))


def _column_name(column: int, names: list[str]) -> str:
    """A column's name where there is one that can be read back, its number otherwise."""
    name = names[column] if column < len(names) else ""
    return column_text(name) if name and names.count(name) == 1 else str(column)
