"""Linear functionals of the latent function, and their covariances.

Data and inducing variables are the same kind of thing: a linear functional takes a function
and gives numbers. Evaluating it on each argument of the kernel gives its covariance with any
other functional, so a new kind of inducing variable needs one method.
"""

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.kernels.base import AbstractKernel
from cavity.numerics.types import Array, Float
from cavity.parameters import real


class AbstractInducing(eqx.Module):
    r"""M linear functionals $u_m = \mathcal L_m f$ of the latent function.

    To implement:
        `__call__(g)`: the functionals of any function `g` from one input (D,) to an array;
        the result has M as its leading axis. Everything else follows; a faster pair can be
        registered with `covariance.register`.

    Attributes:
        orthonormal: whether covariances among the functionals are the identity, without jitter.
    """

    orthonormal: ClassVar[bool] = False

    @abc.abstractmethod
    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        """Applies the functionals to the function g."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number M of functionals."""

    @property
    def groups(self) -> tuple[int, ...]:
        """Sizes of the groups that belong to different terms of a sum, one after the other."""
        return (self.size,)


class Points(AbstractInducing):
    r"""Values at points: $u_m = f(\mathbf z_m)$. Inducing points, or the data themselves.

    Args:
        Z: M points, in the units of the inputs.
    """

    Z: Float[Array, "M D"] = real(input=1, location=True)

    def __init__(self, Z: Any):
        if np.ndim(Z) != 2:
            raise ValueError(
                f"points must be a matrix (M, D), given {np.ndim(Z)} axes; a single input column "
                "is Z[:, None]"
            )
        self.Z = Z

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        return jax.vmap(g)(self.Z)

    @property
    def size(self) -> int:
        return self.Z.shape[0]


def check_places(name: str, places: Any) -> None:
    """Refuses places of functionals that are no matrix with a row for each.

    Raises:
        ValueError: saying what was given.
    """
    if np.ndim(places) != 2 or np.shape(places)[0] == 0:
        raise ValueError(
            f"{name} must be a matrix (M, D) of at least one row, given shape "
            f"{np.shape(places)}; a single input column is {name}[:, None]"
        )


@functools.singledispatch
def input_columns(a: AbstractInducing) -> int | None:
    """The number of input columns that functionals are made for; None where any number will do."""
    return None


@input_columns.register
def _(a: Points) -> int | None:
    return a.Z.shape[1]


@functools.singledispatch
def inputs_of(a: AbstractInducing) -> Float[Array, "M D"]:
    """The functionals of the coordinates of an input: the places, where they are values."""
    return a(lambda x: x)


@functools.singledispatch
def inducing_points(a: AbstractInducing) -> Float[Array, "M D"]:
    """The places of inducing variables that are values of the function.

    Raises:
        ValueError: for functionals of another kind.
    """
    raise ValueError(
        "expectations under Gaussian inputs are for inducing points, given "
        f"{type(a).__name__}: use propagation=cavity.fitting.Nodes()"
    )


@inducing_points.register
def _(a: Points) -> Float[Array, "M D"]:
    return a.Z


@functools.singledispatch
def variances_from(
    a: AbstractInducing, kernel: AbstractKernel, cov: Float[Array, "M M"] | None = None
) -> Float[Array, " M"]:
    """Variances of functionals, from their covariances where these are needed and known."""
    return jnp.diagonal(covariance_from(a, a, kernel) if cov is None else cov)


@variances_from.register
def _(
    a: Points, kernel: AbstractKernel, cov: Float[Array, "M M"] | None = None
) -> Float[Array, " M"]:
    return kernel.diag(a.Z)


def coincidence(a: AbstractInducing, b: AbstractInducing) -> Float[Array, "M K"]:
    """1 where two functionals are the same, 0 elsewhere."""
    pairs = list(zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=False))
    if jax.tree.structure(a) != jax.tree.structure(b):
        return jnp.zeros((a.size, b.size))
    sizes = {(*np.shape(x)[:1], *np.shape(y)[:1]) for x, y in pairs}
    if sizes <= {(a.size, b.size)}:
        same = jnp.ones((a.size, b.size), bool)
        for x, y in pairs:
            equal = x[:, None] == y[None]
            same = same & jnp.all(equal.reshape(*equal.shape[:2], -1), axis=2)
        return same.astype(float)
    if a.size != b.size or any(np.shape(x) != np.shape(y) for x, y in pairs):
        return jnp.zeros((a.size, b.size))
    same = jnp.all(jnp.stack([jnp.all(x == y) for x, y in pairs]))
    return jnp.where(same, jnp.eye(a.size), 0.0)


def covariance(
    kernel: AbstractKernel, a: AbstractInducing, b: AbstractInducing
) -> Float[Array, "M K"]:
    r"""Covariances $\mathrm{cov}(\mathcal L_m f, \mathcal L'_k f)$ of two sets of functionals.

    A pair with a closed form registers it: `@covariance_from.register` on the first functional.
    """
    return covariance_from(a, b, kernel)


@functools.singledispatch
def covariance_from(
    a: AbstractInducing, b: AbstractInducing, kernel: AbstractKernel
) -> Float[Array, "M K"]:
    """Applies both functionals to the kernel, one argument after the other."""

    def row(x: Float[Array, " D"]) -> Float[Array, " K"]:
        if isinstance(b, Points):
            return kernel.cross(x[None], b.Z)[0]
        return covariance_from(b, Points(x[None]), kernel)[:, 0]

    return a(row)


@covariance_from.register
def _(a: Points, b: AbstractInducing, kernel: AbstractKernel) -> Float[Array, "M K"]:
    if isinstance(b, Points):
        return kernel.cross(a.Z, b.Z)
    return covariance_from(b, a, kernel).T
