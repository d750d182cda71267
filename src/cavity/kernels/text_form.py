"""Kernels as text, `rbf(lengthscale=2)[age] + 0.5 * linear`: reading.

A text is an expression of Python, of which only this is read:

    sums and products       rbf + linear * periodic, (rbf + linear) * white
    numbers                 0.5 * rbf scales a kernel
    columns                 rbf[0, 2], rbf[age, "body mass index"]
    starting values         rbf(lengthscale=2), periodic(period=365.25, fixed=True)[date]
    random waves            fourier(rbf, 200)
    patches of images       conv(rbf, (5, 5), image=(28, 28))

Columns are counted from 0, or called by their names. The columns of the kernel in `conv` are
those of a patch: `pixels` is all of its pixels.
"""

import ast
import dataclasses
import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity.kernels.base import AbstractKernel, Active, groups_among
from cavity.kernels.patch_text import CONV, FORM, patch_columns, patches_of
from cavity.kernels.random_fourier import RandomFourier
from cavity.kernels.sum_over import SumOver
from cavity.kernels.text_syntax import (
    column_text,
    elements,
    error,
    expression,
    literal,
    name_of,
)
from cavity.kernels.words import FOURIER, WORDS, Word
from cavity.numerics.text import one_line, plural
from cavity.numerics.tree import named, with_named
from cavity.parameters import bijections

WAVES = f"{FOURIER} is written {FOURIER}(rbf, 200), a kernel's name and a number of waves"
HELD = "fixed"
MOST_WAVES, MOST_IN_NAME = 999_999, 9_999


class Written(NamedTuple):
    """A kernel from its text, and the parameters to which the text gives a value.

    Attributes:
        kernel: with the values that are given; others are 1, centres 0.
        given: dotted names of the parameters that are given.
        fixed: those of them that are held.
    """

    kernel: AbstractKernel
    given: tuple[str, ...]
    fixed: tuple[str, ...]


def parse(
    text: str,
    n_inputs: int,
    names: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
) -> AbstractKernel:
    """Reads a kernel from its text form.

    Parameters that may be one per column are one per column that the kernel sees. They start
    at 1 in the units of the data, centres at 0, unless the text gives them a value.

    Args:
        text: such as `rbf`, `matern52 * periodic[0]`, `0.5 * (rbf + linear[age, bmi]) + white`.
            Values are arguments, `rbf(lengthscale=2)` for all columns and
            `rbf(lengthscale=(2, 0.5))` for each; names of columns that are no names of Python
            stand in quotes, `rbf["body mass index"]`. `polynomial3` has degree 3 (2 when not
            said), `arccosine0` order 0 (1), `spectral_mixture5` five components (3).
            `fourier(rbf, 200)` is the RBF kernel by 200 random waves, `RandomFourier(RBF(),
            200)`; of matern12, matern32 and matern52 too.
            `conv(rbf, (5, 5), image=(28, 28))` is `SumOver(Patches((28, 28), (5, 5)), RBF())`,
            with `stride=2`, `channels="pooled"`, `positions=True` and `weights=True` (of 1,
            learned) where wanted: `conv(rbf[pixels] * matern32[row, column], (5, 5),
            image=(28, 28), positions=True)`.
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
    found = read(text, n_inputs, names, groups)
    if found.fixed:
        raise error(
            text,
            f"{HELD}=True is for estimators and commands; of a kernel in a model, say "
            f'cavity.fit(..., fixed={{"kernel.{found.fixed[0]}": None}})',
        )
    return found.kernel


def read(
    text: str,
    n_inputs: int,
    names: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
) -> Written:
    """As `parse`, with the names of the parameters that the text gives a value, and holds.

    Raises:
        ValueError: saying what could not be read, and what was expected.
    """
    if n_inputs < 1:
        raise ValueError(f"a kernel needs at least one input column, given {n_inputs}")
    for word, some in (("names", names), ("groups", groups)):
        if some is not None and len(some) != n_inputs:
            raise ValueError(f"{len(some)} {word} were given for {n_inputs} input columns")
    reader = _Reader(text, n_inputs, [*map(str, names or ())], groups=groups)
    kernel = reader.kernel(expression(text))
    # parts of a kernel are the objects of which it was made
    known = {id(leaf): name for name, leaf in named(kernel).items()}
    given, fixed = ([known[id(leaf)] for leaf in some] for some in (reader.given, reader.fixed))
    return Written(kernel, tuple(given), tuple(fixed))


def written(
    kernel: object,
    n_inputs: int,
    names: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
) -> Written:
    """A kernel that is given as an object, or what its text says.

    Raises:
        ValueError: for a text that cannot be read, and for anything else.
    """
    if isinstance(kernel, AbstractKernel):
        return Written(kernel, (), ())
    if isinstance(kernel, str):
        return read(kernel, n_inputs, names, groups)
    raise ValueError(
        "kernel must be text such as 'rbf + linear', or a kernel such as "
        f"cavity.kernels.RBF(), given {kernel!r}"
    )


@dataclasses.dataclass
class _Reader:
    """Kernels from the nodes of an expression.

    Attributes:
        text: the whole text.
        n_inputs: number of columns.
        names: of the columns; empty where they have none.
        pixels: so many columns are what `pixels` stands for.
        groups: a number for each column, equal where they share a lengthscale.
        given: arrays of parameters that have been given a value.
        fixed: those of them that are held.
    """

    text: str
    n_inputs: int
    names: list[str]
    pixels: int = 0
    groups: Sequence[int] | None = None
    given: list[np.ndarray] = dataclasses.field(default_factory=list)
    fixed: list[np.ndarray] = dataclasses.field(default_factory=list)

    def error(self, what: str) -> ValueError:
        return error(self.text, what)

    def kernel(self, node: ast.expr) -> AbstractKernel:
        return self.whole(self.value(node))

    def whole(self, value: AbstractKernel | float) -> AbstractKernel:
        """A kernel, not a number."""
        if isinstance(value, AbstractKernel):
            return value
        raise self.error(
            f"the number {value:g} stands alone, and numbers only scale kernels; "
            f"for a constant covariance write {value:g} * constant"
        )

    def value(self, node: ast.expr) -> AbstractKernel | float:
        """A kernel, or a number that is to scale one."""
        match node:
            case ast.BinOp(left, ast.Add(), right):
                return self.whole(self.value(left)) + self.whole(self.value(right))
            case ast.BinOp(left, ast.Mult(), right):
                product = self.value(left) * self.value(right)
                return product if isinstance(product, AbstractKernel) else self.factor(product)
            case ast.Name() | ast.Call() | ast.Subscript():
                return self.word(node)
        number = None if isinstance(node, ast.UnaryOp) else literal(node, int, float)
        if number is not None:
            return self.factor(_real(number))
        raise self.error(
            "expected a kernel's name, a positive number or '(', found "
            f"{ast.unparse(node)!r}; kernels combine with + and *"
        )

    def factor(self, number: float) -> float:
        if not 0.0 < number < np.inf:
            raise self.error(f"a scale factor must be positive and finite, given {number:g}")
        return number

    def word(self, node: ast.Name | ast.Call | ast.Subscript) -> AbstractKernel:
        """A kernel by its name, with the columns and the arguments after it, in either order."""
        columns, call, inner = None, None, node
        while name_of(inner) is None:
            match inner:
                case ast.Subscript() if columns is None:
                    columns, inner = inner.slice, inner.value
                case ast.Call() if call is None:
                    call, inner = inner, inner.func
                case _:
                    raise self.error(
                        f"columns and arguments follow the name of a kernel, once; found "
                        f"{ast.unparse(node)!r}"
                    )
        name = ast.unparse(inner)
        if name == FOURIER or re.fullmatch(rf"{CONV}[\dx]*", name):
            form = WAVES if name == FOURIER else FORM
            if columns is not None:
                raise self.error(f"found '[{ast.unparse(columns)}]' after it; {form}")
            if call is None or name not in (FOURIER, CONV):
                raise self.error(form)
            return self.waves(call) if name == FOURIER else self.sum_over(call)
        word, number = self.known(name)
        if columns is None:
            return self.built(name, word, number, range(self.n_inputs), call)
        chosen = [column for part in elements(columns) for column in self.columns(part)]
        if not chosen:
            raise self.error(f"no column is given in [{ast.unparse(columns)}]")
        if len(set(chosen)) < len(chosen):
            raise self.error(f"a column is given twice in [{ast.unparse(columns)}]")
        return self.built(name, word, number, chosen, call).on(*chosen)

    def known(self, name: str) -> tuple[Word, int]:
        """The kernel of a name, and the number in which the name ends."""
        stem = name.rstrip("0123456789")
        word = WORDS.get(name)
        if word is not None:
            return word, word.default or 0
        if stem in WORDS and WORDS[stem].default is not None:
            digits = name[len(stem) :].lstrip("0") or "0"
            if len(digits) > len(str(MOST_IN_NAME)):
                raise self.error(f"the number after {stem} is {MOST_IN_NAME} at the most")
            return WORDS[stem], int(digits)
        words = [*WORDS, FOURIER, CONV]
        raise self.error(f"unknown kernel {name!r}{_suggest(name.lower(), words)}")

    def built(
        self, name: str, word: Word, number: int, columns: Sequence[int], call: ast.Call | None
    ) -> AbstractKernel:
        """A kernel for some columns, with the arguments of a call."""
        groups = groups_among(columns, self.groups)
        kernel = self.attempt(lambda: word.build(len(columns), number, groups))
        return kernel if call is None else self.started(name, kernel, call)

    def started(self, name: str, kernel: AbstractKernel, call: ast.Call) -> AbstractKernel:
        """A kernel with the values of a call, which may be held."""
        if call.args:
            raise self.error(
                f"an argument of {name} is given by its name, such as {next(iter(named(kernel)))}"
                f"=2; found {ast.unparse(call.args[0])!r}"
            )
        found, held = {}, False
        for each in call.keywords:
            if each.arg == HELD:
                held = self.truth(each)
            elif each.arg in found:
                raise self.error(f"{each.arg} is given twice")
            else:
                found[each.arg] = self.start(name, kernel, each)
        if held and not found:
            raise self.error(f"{HELD}=True holds what is given, and {name} is given no value")
        kernel = with_named(kernel, found)
        self.given += found.values()
        self.fixed += found.values() if held else ()
        return kernel

    def start(self, name: str, kernel: AbstractKernel, given: ast.keyword) -> np.ndarray:
        """The starting value of a parameter of a kernel."""
        domains, asked = named(bijections(kernel)), given.arg or "**"
        if asked not in domains:
            raise self.error(f"{name} has no {asked!r}{_suggest(asked, [*domains, HELD])}")
        values, shape = self.numbers(given.value), np.shape(named(kernel)[asked])
        low, high = domains[asked].lower, domains[asked].upper
        if not np.all((values > low) & (values < high) & np.isfinite(values)):
            raise self.error(f"{given.arg} of {name} must lie in ({low:g}, {high:g})")
        try:
            return np.array(np.broadcast_to(values, shape))
        except ValueError:
            raise self.error(
                f"{given.arg} of {name} takes one number, or an array of shape {shape}; given "
                f"shape {values.shape}"
            ) from None

    def numbers(self, node: ast.expr) -> np.ndarray:
        """A number, or tuples of numbers."""
        number = literal(node, int, float)
        if number is not None:
            return np.asarray(_real(number))
        rows = [self.numbers(each) for each in node.elts] if isinstance(node, ast.Tuple) else []
        if not rows or len({row.shape for row in rows}) > 1 or rows[0].ndim > 1:
            raise self.error(
                f"expected a number or a tuple of numbers, found {ast.unparse(node)!r}"
            )
        return np.stack(rows)

    def truth(self, given: ast.keyword) -> bool:
        """True or False."""
        found = literal(given.value, bool)
        if found is None:
            raise self.error(f"{given.arg} is True or False, found {ast.unparse(given.value)!r}")
        return found

    def waves(self, call: ast.Call) -> AbstractKernel:
        """Random waves of a kernel."""
        number = literal(call.args[1], int) if len(call.args) == 2 else None
        if number is None or call.keywords or not 0 <= number <= MOST_WAVES:
            raise self.error(WAVES)
        kernel = self.kernel(call.args[0])
        if isinstance(kernel, Active):
            inside = kernel.kernel
            return self.attempt(lambda: RandomFourier(inside, number)).on(*kernel.dims)
        return self.attempt(lambda: RandomFourier(kernel, number))

    def sum_over(self, call: ast.Call) -> AbstractKernel:
        """A sum over patches."""
        parts, weights = self.attempt(lambda: patches_of(call))
        if parts.columns != self.n_inputs:
            shape = " x ".join(map(str, parts.image_shape))
            raise self.error(
                f"images of {shape} are {plural(parts.columns, 'column')}, and the inputs have "
                f"{self.n_inputs}"
            )
        inner = _Reader(self.text, *patch_columns(parts), None, self.given, self.fixed)
        base = inner.kernel(call.args[0])
        return self.attempt(lambda: SumOver(parts, base, weights))

    def attempt(self, make: Callable[[], Any]) -> Any:
        """The result of a call, whose errors name the text."""
        try:
            return make()
        except (TypeError, ValueError) as problem:
            raise self.error(str(problem)) from None

    def columns(self, node: ast.expr) -> list[int]:
        """The column of a name or number, or all that are pixels."""
        name = name_of(node)
        given = ast.get_source_segment(one_line(self.text), node) if name is None else name
        given = given or ast.unparse(node)
        if given == "pixels" and self.pixels:
            return list(range(self.pixels))
        if name in self.names:
            return [self.names.index(name)]
        if re.fullmatch("[0-9]{1,18}", given) and int(given) < self.n_inputs:
            return [int(given)]
        if re.fullmatch("[+-]?[0-9]+", given) or not self.names:
            raise self.error(
                f"there is no column {given!r}; columns are numbered 0 to {self.n_inputs - 1}"
            )
        if name is None:
            raise self.error(
                f"found {given!r}; the name of a column that is no name of Python stands in "
                f"quotes: [{column_text(given)}]"
            )
        raise self.error(f"there is no column {given!r}{_suggest(given, self.names)}")


def _real(number: float) -> float:
    """A number as a float; infinite where there is none so large."""
    try:
        return float(number)
    except OverflowError:
        return np.inf


def _suggest(given: str, known: list[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return (f"; did you mean {close[0]!r}?" if close else ";") + f" known: {', '.join(known)}"
