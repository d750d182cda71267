"""Slopes of the latent function, as inducing variables and as observations."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import (
    AbstractInducing,
    Points,
    check_places,
    covariance_from,
    input_columns,
    variances_from,
)
from cavity.kernels.base import AbstractKernel, Active, Product, Scaled, Sum
from cavity.kernels.dot_product import ArcCosine
from cavity.kernels.stationary import Matern12, White
from cavity.numerics.types import Array, Float, Int
from cavity.parameters import real


class Slopes(AbstractInducing):
    r"""Slopes at places, each along one column.

    $$u_m = \partial f(\mathbf z_m) / \partial x_{c_m}$$

    Covariances are derivatives of the kernel, which must have them: `Matern12`, `White` and
    `ArcCosine` of order 0 have not.

    Args:
        Z: places (M, D), in the units of the inputs.
        columns: the column of each slope, counted from 0: one number for all, or (M,). -1 is the
            value of the function in the place of a slope.

    Raises:
        ValueError: for columns that the places do not have.

    References:
        Rasmussen and Williams (2006), section 9.4; Solak et al. (2003).
    """

    columns: Int[Array, " M"]
    Z: Float[Array, "M D"] = real(input=1, location=True)

    def __init__(self, Z: Any, columns: Any):
        check_places("Z", Z)
        self.Z = Z
        self.columns = columns_of("columns", columns, *np.shape(Z))

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        def at(z: Array, direction: Array, column: Array) -> Array:
            value, slope = jax.jvp(g, (z,), (direction,))
            return jnp.where(column < 0, value, slope)

        return jax.vmap(at)(jnp.asarray(self.Z), directions(self), jnp.asarray(self.columns))

    @property
    def size(self) -> int:
        return self.Z.shape[0]


def columns_of(name: str, columns: Any, count: int, D: int) -> Any:
    """Numbers of columns, one per place; -1 for a value.

    Raises:
        ValueError: naming the first that is none of D columns.
    """
    if isinstance(columns, jax.Array):  # of data that were checked before
        return columns
    numbers = np.asarray(columns)
    if numbers.shape not in ((), (count,)):
        raise ValueError(
            f"{name} must be one number or one per place, ({count},), given shape {numbers.shape}"
        )
    numbers = np.broadcast_to(numbers, (count,))
    bad = [c for c in numbers if c != np.floor(c) or not -1 <= c < D]
    if bad:
        raise ValueError(
            f"{name} has {bad[0]:g}, which is no column: the inputs have columns 0 to {D - 1}, "
            "and -1 stands for the value of the function"
        )
    return numbers.astype(np.int64)


def directions(a: Slopes) -> Float[Array, "M D"]:
    """A unit vector along the column of each slope; zero for values."""
    return jax.nn.one_hot(jnp.asarray(a.columns), a.Z.shape[1], dtype=jnp.asarray(a.Z).dtype)


@input_columns.register
def _(a: Slopes) -> int | None:
    return a.Z.shape[1]


@functools.singledispatch
def without_slopes(kernel: AbstractKernel) -> str | None:
    """The name of a kernel, or of one inside, whose functions have no slopes; None if all have."""
    return None


@without_slopes.register(Matern12)
@without_slopes.register(White)
def _(kernel: Matern12 | White) -> str | None:
    return type(kernel).__name__


@without_slopes.register
def _(kernel: ArcCosine) -> str | None:
    return "ArcCosine of order 0" if kernel.order == 0 else None


@without_slopes.register(Sum)
@without_slopes.register(Product)
def _(kernel: Sum | Product) -> str | None:
    return without_slopes(kernel.first) or without_slopes(kernel.second)


@without_slopes.register(Scaled)
@without_slopes.register(Active)
def _(kernel: Scaled | Active) -> str | None:
    return without_slopes(kernel.kernel)


def check_slopes(kernel: AbstractKernel) -> None:
    """Refuses kernels whose functions have no slopes.

    Raises:
        ValueError: naming the kernel.
    """
    name = without_slopes(kernel)
    if name is not None:
        raise ValueError(
            f"functions of the {name} kernel have no slopes (their variance would be infinite): "
            "use Matern32, Matern52 or RBF"
        )


@covariance_from.register
def _(a: Slopes, b: AbstractInducing, kernel: AbstractKernel) -> Float[Array, "M K"]:
    check_slopes(kernel)
    # row m depends on the place of functional m alone: one tangent moves all
    value, slope = jax.jvp(
        lambda Z: covariance_from(Points(Z), b, kernel), (jnp.asarray(a.Z),), (directions(a),)
    )
    return jnp.where(jnp.asarray(a.columns)[:, None] < 0, value, slope)


@variances_from.register
def _(
    a: Slopes, kernel: AbstractKernel, cov: Float[Array, "M M"] | None = None
) -> Float[Array, " M"]:
    check_slopes(kernel)

    def slope_variance(z: Array, direction: Array) -> Array:
        def slope(x: Array) -> Array:
            row = jax.jvp(lambda y: kernel.cross(x[None], y[None]), (z,), (direction,))
            return row[1][0, 0]

        return jax.jvp(slope, (z,), (direction,))[1]

    variance = jax.vmap(slope_variance)(jnp.asarray(a.Z), directions(a))
    return jnp.where(jnp.asarray(a.columns) < 0, kernel.diag(a.Z), variance)
