"""Covariances that were computed before: a kernel that is held, of which only the scale moves."""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from cavity.inducing.base import AbstractInducing, Points, covariance_from
from cavity.kernels.base import AbstractKernel, Scaled
from cavity.numerics.types import Array, Float


class Tabulated(AbstractKernel):
    """A kernel whose inputs are covariances, as `tabulated` makes them.

    An input is a row of M + 1 columns: its covariances with the M inducing variables, and its
    variance. Covariances of inputs with each other are not known.
    """

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        raise ValueError("the covariances of tabulated inputs with each other are not known")

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return X[:, -1]


class TabulatedVariables(AbstractInducing):
    """Inducing variables of a `Tabulated` kernel.

    Args:
        cov: their covariances among themselves, (M, M).
    """

    cov: Float[Array, "M M"]

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        raise ValueError("tabulated variables are functionals of a Tabulated kernel's function")

    @property
    def size(self) -> int:
        return self.cov.shape[0]


def tabulated(
    kernel: AbstractKernel, inducing: AbstractInducing, X: Float[Array, "N D"]
) -> tuple[Float[Array, "M M"], Float[Array, "N M+1"]]:
    """The covariances of inducing variables, and inputs for a `Tabulated` kernel.

    Args:
        kernel: what they are computed by.
        inducing: M inducing variables.
        X: inputs, (N, D).
    """
    cross = covariance_from(inducing, Points(X), kernel).T
    variances = kernel.diag(X)[:, None]
    return covariance_from(inducing, inducing, kernel), jnp.concatenate([cross, variances], axis=1)


@functools.singledispatch
def _factor(kernel: AbstractKernel) -> Any:
    """Factor that multiplies tabulated covariances."""
    raise ValueError(
        f"tabulated variables are for a Tabulated kernel, given {type(kernel).__name__}"
    )


@_factor.register
def _(kernel: Tabulated) -> Any:
    return 1.0


@_factor.register
def _(kernel: Scaled) -> Any:
    return kernel.factor * _factor(kernel.kernel)


@covariance_from.register
def _(a: TabulatedVariables, b: AbstractInducing, kernel: AbstractKernel) -> Float[Array, "M K"]:
    if isinstance(b, Points):
        return _factor(kernel) * b.Z[:, :-1].T
    if isinstance(b, TabulatedVariables):
        return _factor(kernel) * a.cov
    raise ValueError(
        f"tabulated variables have covariances with tabulated inputs alone, given "
        f"{type(b).__name__}"
    )
