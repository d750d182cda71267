"""Kernels as text: writing."""

import dataclasses
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.kernels.base import AbstractKernel, Active, Product, Scaled, Sum
from cavity.kernels.patch_text import CONV, checked_patches, patch_columns, write_patches
from cavity.kernels.random_fourier import RandomFourier
from cavity.kernels.sum_over import SumOver
from cavity.kernels.text_syntax import column_text
from cavity.kernels.words import FOURIER, WORDS


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
    return _Writer([*map(str, names or ())], values).write(kernel, None)


@dataclasses.dataclass(frozen=True)
class _Writer:
    """Texts of the parts of a kernel.

    Attributes:
        names: of the input columns, or none.
        values: whether values of parameters are written.
    """

    names: list[str]
    values: bool

    def write(self, kernel: AbstractKernel, columns: list[int] | None) -> str:
        if isinstance(kernel, Active):
            inside = [d if columns is None else columns[d] for d in kernel.dims]
            return self.write(kernel.kernel, inside)
        if isinstance(kernel, Sum):
            second = self.group(kernel.second, columns, Sum)
            return f"{self.write(kernel.first, columns)} + {second}"
        if isinstance(kernel, Product):
            first = self.group(kernel.first, columns, Sum)
            return f"{first} * {self.group(kernel.second, columns, Sum | Product | Scaled)}"
        if isinstance(kernel, Scaled):
            inside = self.group(kernel.kernel, columns, Sum | Product | Scaled)
            factor = float(kernel.factor)
            return f"{_numbers(factor) if self.values else f'{factor:.6g}'} * {inside}"
        if isinstance(kernel, SumOver):
            parts = checked_patches(kernel.parts, columns)
            base = _Writer(patch_columns(parts)[1], self.values).write(kernel.base, None)
            return write_patches(parts, base, self.weights(kernel))
        chosen = [_column_name(d, self.names) for d in columns or []]
        listed = f"[{','.join(chosen)}]" if chosen else ""
        if isinstance(kernel, RandomFourier):
            waves = kernel.frequencies.shape[0]
            return f"{FOURIER}({self.named(kernel.kernel)}{listed}, {waves})"
        return self.named(kernel) + listed

    def weights(self, kernel: SumOver) -> str:
        """The argument for the weights of a sum; empty where they are no parameters."""
        if kernel.weights is None:
            return ""
        alike = not self.values or np.all(np.asarray(kernel.weights) == 1.0)
        return "True" if alike else str(tuple(np.asarray(kernel.weights).tolist()))

    def group(
        self, kernel: AbstractKernel, columns: list[int] | None, kinds: type | types.UnionType
    ) -> str:
        """The text of a part, in parentheses if it is one of the kinds that would read wrongly."""
        part = self.write(kernel, columns)
        while isinstance(kernel, Active):
            kernel = kernel.kernel
        return f"({part})" if isinstance(kernel, kinds) else part

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
            usual = _parameters(word.build(widest.shape[-1] if widest.ndim else 1, number))
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
    fields = [f.name for f in dataclasses.fields(kernel) if "domain" in f.metadata]
    values = {name: getattr(kernel, name) for name in fields}
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def _numbers(value: Any) -> str:
    """Numbers to the last digit: one where all are equal, tuples otherwise."""
    value = np.asarray(value, np.float64)
    return _tuples(value.flat[0] if np.all(value == value.flat[0]) else value)


def _tuples(value: np.ndarray | np.floating) -> str:
    if not np.ndim(value):
        return repr(float(value)).removesuffix(".0")
    inside = [_tuples(each) for each in np.asarray(value)]
    return f"({', '.join(inside)}{',' * (len(inside) == 1)})"


def _same(value: np.ndarray, usual: np.ndarray) -> bool:
    """True where a parameter has its usual value, or that for all columns at once."""
    return bool(np.all(value == (usual if value.shape == usual.shape else usual.flat[0])))


def _column_name(column: int, names: list[str]) -> str:
    """A column's name where there is one that can be read back, its number otherwise."""
    name = names[column] if column < len(names) else ""
    return column_text(name) if name and names.count(name) == 1 else str(column)
