"""Kernels: the base class, and how kernels compose."""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.numerics.distances import scaled_distance
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float
from cavity.parameters import positive
from cavity.parameters.table import Tabled

# What a constructor takes for a parameter: a number or anything array-like. The field's
# converter makes it an array.
Values = Any
# The group of each column, by number from 0; None where each is alone.
Groups = tuple[int, ...] | None


class AbstractKernel(Tabled, eqx.Module):
    r"""A covariance function $k(\mathbf x, \mathbf x')$ of a latent function.

    Kernels add, multiply and scale: `k1 + k2`, `k1 * k2`, `2.0 * k`; `k.on(0, 2)` looks only at
    columns 0 and 2. Parameters are in the units of the data passed in.

    To implement:
        `cross(X, Z)`, the N x M matrix of covariances, and `diag(X)`, the N variances.
        Declare parameters with `positive()` and friends of `cavity.parameters`.
    """

    @abc.abstractmethod
    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """The covariances between the function at the rows of X and at the rows of Z."""

    @abc.abstractmethod
    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        """The variances of the function at the rows of X."""

    def __add__(self, other: "AbstractKernel") -> "AbstractKernel":
        return Sum(self, other) if isinstance(other, AbstractKernel) else NotImplemented

    def __mul__(self, other: "AbstractKernel | float") -> "AbstractKernel":
        return Product(self, other) if isinstance(other, AbstractKernel) else Scaled(self, other)

    def __rmul__(self, other: float) -> "AbstractKernel":
        return Scaled(self, other)

    def on(self, *dims: int) -> "AbstractKernel":
        """This kernel of the given input columns only (counted from 0)."""
        return Active(self, dims)


def check_columns(
    X: Float[Array, "N D"], Z: Float[Array, "M E"], **per_column: Float[Array, "..."]
) -> None:
    """Refuses inputs of different widths, and parameters that do not fit their columns.

    Args:
        X: the first inputs.
        Z: the second inputs.
        **per_column: parameters by name, each with one value, or one per column on its last axis.

    Raises:
        ValueError: saying which numbers disagree.
    """
    D = X.shape[1]
    if Z.shape[1] != D:
        raise ValueError(
            f"the two sets of inputs have {D} and {plural(Z.shape[1], 'column')}; give both the "
            "same columns"
        )
    for name, values in per_column.items():
        if values.ndim and values.shape[-1] not in (1, D):
            raise ValueError(
                f"the kernel has {values.shape[-1]} values of {name}, the inputs have "
                f"{plural(D, 'column')}; give one value per column, or a single one for all"
            )


def groups_among(columns: Sequence[int], groups: Sequence[int] | None) -> Groups:
    """The groups of some columns, numbered anew from 0; None where no two share one.

    Args:
        columns: by number.
        groups: the group of every column; None where each is alone.
    """
    found = [column if groups is None else groups[column] for column in columns]
    known = list(dict.fromkeys(found))
    return None if len(known) == len(found) else tuple(map(known.index, found))


def check_groups(groups: Sequence[int], shape: tuple[int, ...]) -> None:
    """Refuses groups of columns unless there is a lengthscale for each, of an array's shape."""
    count = len(set(groups))
    if set(groups) != set(range(count)) or shape != (count,):
        raise ValueError(
            "groups have the number of each column's lengthscale, from 0, and every number has a "
            f"lengthscale; given groups={groups} and lengthscales of shape {shape}"
        )


@jax.custom_jvp
def not_negative(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Clips small negative values, due to rounding, to zero, with straight-through derivatives.

    A plain maximum has half the slope at 0 and none below: second derivatives at zero
    distance, which are the covariances of slopes, would be wrong.
    """
    return jnp.maximum(x, 0.0)


@not_negative.defjvp
def _not_negative_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return not_negative(*primals), tangents[0]


def squared_distance(
    X: Float[Array, "N D"], Z: Float[Array, "M D"], lengthscale: Float[Array, "..."]
) -> Float[Array, "N M"]:
    r"""Squared scaled distances $\sum_d (x_d - z_d)^2 / \ell_d^2$ by one matrix product.

    Both inputs are centred on the mean of X first: without that, an offset of 1e6 in the
    inputs costs all but four digits. X is what a model holds, its data or inducing points, so
    that a distant row among new inputs Z costs the others nothing.

    Raises:
        ValueError: if the inputs differ in their number of columns, or if the number of
            lengthscales is neither one nor that number.
    """
    check_columns(X, Z, lengthscale=lengthscale)
    centre = jax.lax.stop_gradient(jnp.mean(X, axis=0))
    return not_negative(scaled_distance(X - centre, Z - centre, jnp.asarray(lengthscale)))


class Sum(AbstractKernel):
    r"""The covariance of a sum of two independent functions, $k_1 + k_2$."""

    first: AbstractKernel
    second: AbstractKernel

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return self.first.cross(X, Z) + self.second.cross(X, Z)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return self.first.diag(X) + self.second.diag(X)


class Product(AbstractKernel):
    r"""The product of two covariance functions, $k_1 k_2$.

    The first factor carries the units of the output; the second counts as dimensionless.
    """

    first: AbstractKernel
    second: AbstractKernel = eqx.field(metadata={"dimensionless": True})

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return self.first.cross(X, Z) * self.second.cross(X, Z)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return self.first.diag(X) * self.second.diag(X)


class Scaled(AbstractKernel):
    r"""A kernel times a positive number, $c\,k$."""

    kernel: AbstractKernel
    factor: Float[Array, ""] = positive()

    def __init__(self, kernel: AbstractKernel, factor: Values):
        self.kernel = kernel
        self.factor = factor

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return self.factor * self.kernel.cross(X, Z)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return self.factor * self.kernel.diag(X)


class Active(AbstractKernel):
    r"""A kernel that sees only some columns of the inputs (counted from 0).

    Raises:
        ValueError: when no column is given, or when evaluated on inputs that lack one of them.
    """

    kernel: AbstractKernel
    dims: tuple[int, ...] = eqx.field(static=True, converter=lambda dims: tuple(map(int, dims)))

    def __check_init__(self) -> None:
        if not self.dims:
            raise ValueError("a kernel needs at least one column to be active on, none was given")

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return self.kernel.cross(self._columns(X), self._columns(Z))

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return self.kernel.diag(self._columns(X))

    def _columns(self, X: Float[Array, "N D"]) -> Float[Array, "N A"]:
        if not all(0 <= d < X.shape[1] for d in self.dims):
            raise ValueError(
                f"a kernel is active on columns {list(self.dims)}, but the inputs have "
                f"{plural(X.shape[1], 'column')} (counted from 0)"
            )
        return X[:, jnp.array(self.dims)]
