"""Kernels as text, `rbf + 0.5 * linear[0,2]`: reading and writing.

    sum      =  product { "+" product }
    product  =  factor { "*" factor }
    factor   =  number  |  name [ "[" column { "," column } "]" ]  |  "(" sum ")"
              |  "fourier" "(" name [ "[" column { "," column } "]" ] "," number ")"
              |  "conv" "(" sum "," size "," "image" "=" size { "," option } ")"

Columns are counted from 0, or called by their names. A number scales the kernel it multiplies.
The columns of the sum in `conv` are those of a patch: `pixels` is all of its pixels.
"""

import dataclasses
import difflib
import re
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from cavity.kernels.base import AbstractKernel, Active, Product, Scaled, Sum, groups_among
from cavity.kernels.dot_product import ArcCosine, Linear, NeuralNetwork, Polynomial
from cavity.kernels.patch_text import (
    CONV,
    FORM,
    checked_patches,
    patch_columns,
    read_patches,
    words_after_kernel,
    write_patches,
)
from cavity.kernels.random_fourier import RandomFourier
from cavity.kernels.stationary import (
    RBF,
    AbstractStationary,
    Constant,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
    White,
)
from cavity.kernels.sum_over import SumOver
from cavity.numerics.text import plural


class _Word(NamedTuple):
    """A kernel's name: its class, how to build it for D columns, and the number it may end in."""

    kernel: type[AbstractKernel]
    build: Callable[[int, int], AbstractKernel]
    default: int | None = None
    number: Callable[..., int] | None = None


def _mixture(D: int, Q: int) -> SpectralMixture:
    """Q components like an RBF of lengthscale 1, of frequencies spread evenly up to a half."""
    if Q < 1:
        raise ValueError(f"a spectral mixture needs at least 1 component, given {Q}")
    frequencies = np.linspace(0.5 / Q, 0.5, Q)[:, None] * np.ones(D)
    return SpectralMixture(np.full(Q, 1.0 / Q), frequencies, np.full((Q, D), 0.5 / np.pi))


FOURIER = "fourier"  # random waves of a kernel: a word with parentheses
_ones, _zeros = np.ones, np.zeros

_WORDS: dict[str, _Word] = {
    "rbf": _Word(RBF, lambda D, _: RBF(1.0, _ones(D))),
    "matern12": _Word(Matern12, lambda D, _: Matern12(1.0, _ones(D))),
    "matern32": _Word(Matern32, lambda D, _: Matern32(1.0, _ones(D))),
    "matern52": _Word(Matern52, lambda D, _: Matern52(1.0, _ones(D))),
    "rational_quadratic": _Word(RationalQuadratic, lambda D, _: RationalQuadratic(1.0, _ones(D))),
    "periodic": _Word(Periodic, lambda D, _: Periodic(1.0, _ones(D), _ones(D))),
    "spectral_mixture": _Word(SpectralMixture, _mixture, 3, lambda k: k.weights.shape[0]),
    "linear": _Word(Linear, lambda D, _: Linear(_ones(D), _zeros(D))),
    "polynomial": _Word(
        Polynomial,
        lambda D, n: Polynomial(weight_variance=_ones(D), degree=n, centre=_zeros(D)),
        2,
        lambda k: k.degree,
    ),
    "arccosine": _Word(
        ArcCosine,
        lambda D, n: ArcCosine(weight_variance=_ones(D), order=n, centre=_zeros(D)),
        1,
        lambda k: k.order,
    ),
    "neural_network": _Word(
        NeuralNetwork, lambda D, _: NeuralNetwork(weight_variance=_ones(D), centre=_zeros(D))
    ),
    "constant": _Word(Constant, lambda D, _: Constant()),
    "white": _Word(White, lambda D, _: White()),
}


def parse(
    text: str,
    n_inputs: int,
    names: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
) -> AbstractKernel:
    """Reads a kernel from its text form.

    Parameters that may be one per column are one per column that the kernel sees. They start
    at 1 in the units of the data; centres start at 0.

    Args:
        text: such as `rbf`, `matern52 * periodic[0]`, `0.5 * (rbf + linear[age,bmi]) + white`.
            `polynomial3` has degree 3 (2 when not said), `arccosine0` order 0 (1),
            `spectral_mixture5` five components (3). `fourier(rbf, 200)` is the RBF kernel by 200
            random waves, `RandomFourier(RBF(), 200)`; of matern12, matern32 and matern52 too.
            `conv(rbf, 5x5, image=28x28)` is `SumOver(Patches((28, 28), (5, 5)), RBF())`, with
            `stride=2`, `channels=pooled`, `positions` and `weights` (of 1, learned) where
            wanted: `conv(rbf[pixels] * matern32[row,column], 5x5, image=28x28, positions)`.
        n_inputs: number of columns of the inputs.
        names: the names of the columns, where they have any.
        groups: a number for each column, equal for those that are to share a lengthscale.

    Returns:
        The kernel.

    Raises:
        ValueError: saying what could not be read, and what was expected.

    Example:
        >>> from cavity.kernels import parse, text
        >>> text(parse("rbf + 2*linear[bmi]", n_inputs=2, names=["age", "bmi"]))
        'rbf + 2 * linear[1]'
    """
    if n_inputs < 1:
        raise ValueError(f"a kernel needs at least one input column, given {n_inputs}")
    for word, given in (("names", names), ("groups", groups)):
        if given is not None and len(given) != n_inputs:
            raise ValueError(f"{len(given)} {word} were given for {n_inputs} input columns")
    return _Reader(text, n_inputs, [*map(str, names or ())], groups=groups).read()


def text(kernel: AbstractKernel, names: Sequence[str] | None = None) -> str:
    """The text form of a kernel, without the values of its parameters but those of its factors.

    Sums over patches of whole inputs have one. Sums over other parts have none: what they are is
    in numbers, the permutations of an `Orbit` or the ranges of `Warps`.

    Args:
        kernel: made of the kernels that have a name.
        names: the names of the input columns; numbers are written without them.

    Returns:
        What `parse` reads as a kernel of the same structure.

    Raises:
        ValueError: for a kernel that has no name, and for sums over other parts.
    """
    return _write(kernel, None, [] if names is None else [str(name) for name in names])


# ------------------------------------------------------------------------------- writing


def _write(kernel: AbstractKernel, columns: list[int] | None, names: list[str]) -> str:
    if isinstance(kernel, Active):
        inside = [d if columns is None else columns[d] for d in kernel.dims]
        return _write(kernel.kernel, inside, names)
    if isinstance(kernel, Sum):
        second = _group(kernel.second, columns, names, Sum)
        return f"{_write(kernel.first, columns, names)} + {second}"
    if isinstance(kernel, Product):
        first = _group(kernel.first, columns, names, Sum)
        return f"{first} * {_group(kernel.second, columns, names, Sum | Product | Scaled)}"
    if isinstance(kernel, Scaled):
        inside = _group(kernel.kernel, columns, names, Sum | Product | Scaled)
        return f"{float(kernel.factor):.6g} * {inside}"
    if isinstance(kernel, SumOver):
        parts = checked_patches(kernel.parts, columns)
        base = _write(kernel.base, None, patch_columns(parts)[1])
        return write_patches(parts, base, weighted=kernel.weights is not None)
    chosen = [_column_name(d, names) for d in columns or []]
    listed = f"[{','.join(chosen)}]" if chosen else ""
    if isinstance(kernel, RandomFourier):
        return f"{FOURIER}({_name(kernel.kernel)}{listed}, {kernel.frequencies.shape[0]})"
    return _name(kernel) + listed


def _group(
    kernel: AbstractKernel,
    columns: list[int] | None,
    names: list[str],
    kinds: type | types.UnionType,
) -> str:
    """The text of a part, in parentheses if it is one of the kinds that would read wrongly."""
    part = _write(kernel, columns, names)
    while isinstance(kernel, Active):
        kernel = kernel.kernel
    return f"({part})" if isinstance(kernel, kinds) else part


def _column_name(column: int, names: list[str]) -> str:
    """A column's name where there is one that can be read back, its number otherwise."""
    name = names[column] if column < len(names) else ""
    readable = name == name.strip() and name and not re.search(r"[\[\],]", name)
    return name if readable and names.count(name) == 1 else str(column)


def _name(kernel: AbstractKernel) -> str:
    for name, word in _WORDS.items():
        if word.kernel is type(kernel):
            return name if word.number is None else f"{name}{word.number(kernel)}"
    raise ValueError(
        f"{type(kernel).__name__} has no text form; kernels that have one: "
        f"{', '.join([*_WORDS, FOURIER, CONV])}"
    )


# ------------------------------------------------------------------------------- reading

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<columns>\[[^\[\]]*\])"
    r"|(?P<symbol>\S))"
)


@dataclasses.dataclass
class _Reader:
    """A recursive-descent reader of one text: one method for each line of the grammar."""

    text: str
    n_inputs: int
    names: list[str]
    pixels: int = 0  # so many columns are what `pixels` stands for
    groups: Sequence[int] | None = None
    position: int = 0

    def __post_init__(self) -> None:
        found = _TOKEN.finditer(self.text.rstrip())
        self.tokens = [(str(m.lastgroup), m.group(m.lastgroup or 0)) for m in found]
        self.tokens.append(("end", "the end"))

    def error(self, what: str) -> ValueError:
        return ValueError(f"cannot read the kernel {self.text!r}: {what}")

    def next_is(self, token: str) -> bool:
        """Steps over the given token if it comes next."""
        here = self.tokens[self.position][1] == token
        self.position += here
        return here

    def read(self) -> AbstractKernel:
        kernel = self.sum()
        kind, value = self.tokens[self.position]
        if kind != "end":
            raise self.error(f"expected + or * or the end, found {value!r}")
        return kernel

    def sum(self) -> AbstractKernel:
        total = self.kernel(self.product())
        while self.next_is("+"):
            total = total + self.kernel(self.product())
        return total

    def kernel(self, value: AbstractKernel | float) -> AbstractKernel:
        if isinstance(value, AbstractKernel):
            return value
        raise self.error(
            f"the number {value:g} stands alone, and numbers only scale kernels; "
            f"for a constant covariance write {value:g} * constant"
        )

    def product(self) -> AbstractKernel | float:
        value = self.factor()
        while self.next_is("*"):
            value = value * self.factor()
        return value

    def factor(self) -> AbstractKernel | float:
        kind, value = self.tokens[self.position]
        self.position += kind != "end"
        if kind == "number":
            return self.number(value)
        if kind == "name":
            return self.named(value)
        if value != "(":
            found = "the end" if kind == "end" else repr(value)
            raise self.error(
                f"expected a kernel's name, a positive number or '(', found {found}; "
                "kernels combine with + and *"
            )
        inside = self.sum()
        if not self.next_is(")"):
            raise self.error("a '(' has no ')'")
        return inside

    def number(self, value: str) -> float:
        if not 0.0 < float(value) < np.inf:
            raise self.error(f"a scale factor must be positive and finite, given {value}")
        return float(value)

    def fourier(self) -> AbstractKernel:
        """Random waves of a kernel, after their name."""
        form = f"{FOURIER} is written {FOURIER}(rbf, 200), a kernel's name and a number of waves"
        if not self.next_is("("):
            raise self.error(form)
        kind, name = self.tokens[self.position]
        self.position += kind != "end"
        if kind != "name" or name == FOURIER:
            raise self.error(form)
        kernel = self.named(name)
        whole = self.next_is(",") and self.tokens[self.position]
        if not whole or not re.fullmatch(r"\d{1,6}", whole[1]):
            raise self.error(form)
        self.position += 1
        if not self.next_is(")"):
            raise self.error(form)
        columns = kernel.dims if isinstance(kernel, Active) else None
        inside = kernel.kernel if isinstance(kernel, Active) else kernel
        try:
            waves = RandomFourier(inside, int(whole[1]))
        except (TypeError, ValueError) as problem:
            raise self.error(str(problem)) from None
        return waves if columns is None else waves.on(*columns)

    def sum_over(self, name: str) -> AbstractKernel:
        """A sum over patches, after its name."""
        if name != CONV or not self.next_is("("):
            raise self.error(FORM)
        try:
            comma, end, words = words_after_kernel(self.tokens, self.position)
            parts, weighted = read_patches(words)
        except ValueError as problem:
            raise self.error(str(problem)) from None
        if parts.columns != self.n_inputs:
            shape = " x ".join(map(str, parts.image_shape))
            raise self.error(
                f"images of {shape} are {plural(parts.columns, 'column')}, and the inputs have "
                f"{self.n_inputs}"
            )
        inside = _Reader(self.text, *patch_columns(parts), position=self.position)
        base = inside.sum()
        if inside.position != comma:
            found = self.tokens[inside.position][1]
            raise self.error(f"expected + or * or a comma, found {found!r}")
        self.position = end + 1
        return SumOver(parts, base, _ones(parts.size) if weighted else None)

    def named(self, name: str) -> AbstractKernel:
        if name == FOURIER:
            return self.fourier()
        if re.fullmatch(rf"{CONV}[\dx]*", name):
            return self.sum_over(name)
        kind, value = self.tokens[self.position]
        if kind != "columns":
            return self.built(name, range(self.n_inputs))
        self.position += 1
        listed = value[1:-1].split(",")
        columns = [column for part in listed for column in self.columns(part.strip())]
        if len(set(columns)) < len(columns):
            raise self.error(f"a column is given twice in {value}")
        return self.built(name, columns).on(*columns)

    def built(self, name: str, columns: Sequence[int]) -> AbstractKernel:
        stem = name.rstrip("0123456789")
        word, number = _WORDS.get(name), None
        if word is None and stem in _WORDS and _WORDS[stem].default is not None:
            word, number = _WORDS[stem], int(name[len(stem) :])
        if word is None:
            known = [*_WORDS, FOURIER, CONV]
            raise self.error(f"unknown kernel {name!r}{_suggest(name.lower(), known)}")
        groups = groups_among(columns, self.groups)
        if groups is not None and issubclass(word.kernel, AbstractStationary):
            return cast(Any, word.kernel)(1.0, _ones(max(groups) + 1), groups=groups)
        try:
            return word.build(len(columns), word.default or 0 if number is None else number)
        except ValueError as problem:
            raise self.error(str(problem)) from None

    def columns(self, given: str) -> list[int]:
        """The column of a name or number, or all that are pixels."""
        if given == "pixels" and self.pixels:
            return list(range(self.pixels))
        return [self.column(given)]

    def column(self, given: str) -> int:
        if given in self.names:
            return self.names.index(given)
        if re.fullmatch(r"\d+", given) and int(given) < self.n_inputs:
            return int(given)
        if re.fullmatch(r"[+-]?\d+", given) or not self.names:
            raise self.error(
                f"there is no column {given!r}; columns are numbered 0 to {self.n_inputs - 1}"
            )
        raise self.error(f"there is no column {given!r}{_suggest(given, self.names)}")


def _suggest(given: str, known: list[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return (f"; did you mean {close[0]!r}?" if close else ";") + f" known: {', '.join(known)}"
