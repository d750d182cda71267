"""Inducing variables of functions that are sums: over the parts of an input, or over terms."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag

from cavity.inducing.base import (
    AbstractInducing,
    Points,
    covariance_from,
    inputs_of,
    variances_from,
)
from cavity.kernels.base import AbstractKernel, Active, Scaled, Sum
from cavity.kernels.part_sums import weighted_sums
from cavity.kernels.sum_over import SumOver
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float


def _functionals(name: str, given: Any) -> AbstractInducing:
    """Inducing variables, or an array of points as such.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(given, AbstractInducing):
        return given
    if np.ndim(given) == 2 and isinstance(given, np.ndarray | jax.Array | list):
        return Points(given)
    raise TypeError(
        f"{name} takes inducing variables, such as Points(Z), or points (M, D), given "
        f"{type(given).__name__}"
    )


class InBase(AbstractInducing):
    r"""Functionals of the function g of one part, for `kernels.SumOver`: inducing patches.

    $u_m = \mathcal L_m g$ where $f(\mathbf x) = \sum_p w_p\, g(\mathbf x^{[p]})$. Their
    covariances among themselves are those of g, and with f one sum over parts,
    $\mathrm{cov}(u_m, f(\mathbf x)) = \sum_p w_p\, \mathrm{cov}(\mathcal L_m g,
    g(\mathbf x^{[p]}))$.

    Args:
        inner: functionals of g: `Points` for inducing patches, or any others.

    References:
        van der Wilk (2018), items 61 and 63, with erratum X-12.
    """

    inner: AbstractInducing

    def __init__(self, inner: Any):
        self.inner = _functionals("InBase", inner)

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        raise ValueError(
            "these are functionals of the function of one part: give a kernel SumOver(parts, "
            "base), or inducing.OfParts for a sum of kernels"
        )

    @property
    def size(self) -> int:
        return self.inner.size


@inputs_of.register
def _(a: InBase) -> Float[Array, "M D"]:
    return inputs_of(a.inner)


class OfParts(AbstractInducing):
    r"""Inducing variables of each term of a sum of kernels, independent of each other.

    Where $f = f_1 + f_2 + \dots$, each term has variables of its own, which may be of different
    kinds: patches of a convolutional term and images of another. Beliefs about all of them are
    joint, unless `TiedPowerEP(joint=False)` is asked for.

    Args:
        each: the inducing variables of every term, in the order of the sum.

    References:
        van der Wilk (2018), item 66, with erratum X-17.
    """

    each: tuple[AbstractInducing, ...]

    def __init__(self, each: Any):
        if isinstance(each, AbstractInducing):
            raise TypeError("OfParts takes a tuple, with inducing variables for every term")
        self.each = tuple(_functionals("OfParts", one) for one in each)
        if len(self.each) < 2:
            raise ValueError(
                "inducing variables for each term of a sum are two sets or more, given "
                f"{len(self.each)}"
            )

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        raise ValueError("these are functionals of the terms of a sum: give a sum of kernels")

    @property
    def size(self) -> int:
        return sum(self.groups)

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(a.size for a in self.each)


# ------------------------------------------------------------------------- functions of parts


@functools.singledispatch
def _base(kernel: AbstractKernel) -> tuple[AbstractKernel, SumOver]:
    """The covariance of the function of one part, and the sum that it is in.

    Raises:
        ValueError: for a kernel that is no sum over parts.
    """
    raise ValueError(
        f"inducing.InBase is for kernels.SumOver, given {type(kernel).__name__}: give Points to "
        "other kernels, and OfParts((InBase(...), Points(...))) to a sum of both"
    )


@_base.register
def _(kernel: SumOver) -> tuple[AbstractKernel, SumOver]:
    return kernel.base, kernel


@_base.register
def _(kernel: Active) -> tuple[AbstractKernel, SumOver]:
    raise ValueError(
        f"inducing.InBase is for sums over the parts of whole inputs, given a kernel of columns "
        f"{list(kernel.dims)} alone: leave .on(...) out and give X with these columns, or give "
        "inducing.Points"
    )


@_base.register
def _(kernel: Scaled) -> tuple[AbstractKernel, SumOver]:
    base, inside = _base(kernel.kernel)
    base = Scaled(base, kernel.factor)
    return base, SumOver(inside.parts, base, inside.weights)


class PartFunction(NamedTuple):
    """The function of one part, and where it is in a model.

    Attributes:
        kernel: its covariance.
        inducing: the inducing variables that are functionals of it.
        whole: the sum over parts that it is in.
        place: which of all inducing variables these are.
    """

    kernel: AbstractKernel
    inducing: AbstractInducing
    whole: SumOver
    place: slice


def part_function(a: AbstractInducing, kernel: AbstractKernel) -> PartFunction:
    """The function of one part, of a sum over parts or of the one term that is such a sum.

    Raises:
        ValueError: for inducing variables or a kernel without one sum over parts.
    """
    each, terms = zip(*_paired(a, kernel), strict=True)
    found = [i for i, one in enumerate(each) if isinstance(one, InBase)]
    if len(found) != 1:
        raise ValueError(
            "the function of one part is known where inducing variables are its own, "
            "inducing.InBase(...), alone or once in inducing.OfParts(...); given "
            + ", ".join(type(one).__name__ for one in each)
        )
    inducing: Any = each[found[0]]
    base, inside = _base(terms[found[0]])
    before = sum(one.size for one in each[: found[0]])
    return PartFunction(base, inducing.inner, inside, slice(before, before + inducing.size))


@functools.singledispatch
def _paired(
    a: AbstractInducing, kernel: AbstractKernel
) -> list[tuple[AbstractInducing, AbstractKernel]]:
    """Inducing variables of every term, and the kernel of the term."""
    return [(a, kernel)]


@_paired.register
def _(a: OfParts, kernel: AbstractKernel) -> list[tuple[AbstractInducing, AbstractKernel]]:
    return [*zip(a.each, _terms(kernel, a), strict=True)]


@covariance_from.register
def _(a: InBase, b: AbstractInducing, kernel: AbstractKernel) -> Float[Array, "M K"]:
    base, inside = _base(kernel)
    if isinstance(b, InBase):
        return covariance_from(a.inner, b.inner, base)
    if isinstance(b, Points):
        inner = jax.tree.map(jnp.asarray, a.inner)
        return inside.sums(b.Z, lambda base, *parts: _sums(inner, base, *parts)).T

    def plain(x: Float[Array, " D"]) -> Float[Array, " M"]:
        own, weights = inside.apart(x)
        return covariance_from(a.inner, Points(own), base) @ weights

    return b(plain).T


@functools.singledispatch
def _sums(
    a: AbstractInducing, base: AbstractKernel, parts: Array, weights: Array
) -> Float[Array, " M"]:
    """The covariances of functionals with a weighted sum over parts."""
    return covariance_from(a, Points(parts), base) @ weights


@_sums.register
def _(a: Points, base: AbstractKernel, parts: Array, weights: Array) -> Float[Array, " M"]:
    return weighted_sums(base, a.Z, parts, weights)


@variances_from.register
def _(
    a: InBase, kernel: AbstractKernel, cov: Float[Array, "M M"] | None = None
) -> Float[Array, " M"]:
    return variances_from(a.inner, _base(kernel)[0], cov)


# --------------------------------------------------------------------------- terms of a sum


@functools.singledispatch
def _split(kernel: AbstractKernel) -> tuple[AbstractKernel, ...]:
    """The terms of a sum of kernels; a kernel of another kind is one term."""
    return (kernel,)


@_split.register
def _(kernel: Sum) -> tuple[AbstractKernel, ...]:
    return (*_split(kernel.first), *_split(kernel.second))


@_split.register
def _(kernel: Scaled) -> tuple[AbstractKernel, ...]:
    return tuple(Scaled(term, kernel.factor) for term in _split(kernel.kernel))


def _terms(kernel: AbstractKernel, wanted: OfParts) -> tuple[AbstractKernel, ...]:
    """The terms of a sum of kernels.

    Raises:
        ValueError: where there are not as many as sets of inducing variables.
    """
    terms = _split(kernel)
    if len(terms) != len(wanted.each):
        raise ValueError(
            f"the kernel is a sum of {plural(len(terms), 'term')}, given inducing variables for "
            f"{len(wanted.each)}: give OfParts as many as there are terms"
        )
    return terms


@covariance_from.register
def _(a: OfParts, b: AbstractInducing, kernel: AbstractKernel) -> Float[Array, "M K"]:
    pairs = _paired(a, kernel)
    if isinstance(b, OfParts):
        triples = zip(pairs, b.each, strict=True)
        return block_diag(*(covariance_from(x, y, term) for (x, term), y in triples))
    return jnp.concatenate([covariance_from(x, b, term) for x, term in pairs])


@variances_from.register
def _(
    a: OfParts, kernel: AbstractKernel, cov: Float[Array, "M M"] | None = None
) -> Float[Array, " M"]:
    return jnp.concatenate([variances_from(x, term) for x, term in _paired(a, kernel)])
