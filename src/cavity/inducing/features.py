"""The weights of a kernel's features as variables: a full GP worked out by explicit features."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from cavity.inducing.base import AbstractInducing, covariance_from
from cavity.kernels.base import AbstractKernel
from cavity.kernels.random_fourier import features
from cavity.numerics.types import Array, Float


class Features(AbstractInducing):
    r"""The weights of the features of a kernel, $f = \sum_m u_m \phi_m$, with unit variances.

    They explain all of the function, so inference through them is that of the full GP.
    `GP(RandomFourier(kernel, R), likelihood)` uses them by itself.

    Args:
        count: M, the number of features.
    """

    count: int = eqx.field(static=True)
    orthonormal: ClassVar[bool] = True

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        raise ValueError(
            "weights of features are functionals of functions that have these features only: give "
            "inducing.Points to a kernel without explicit features"
        )

    @property
    def size(self) -> int:
        return self.count


@covariance_from.register
def _(a: Features, b: AbstractInducing, kernel: AbstractKernel) -> Float[Array, "M K"]:
    if isinstance(b, Features):
        return jnp.eye(a.count)
    # functionals of f are those of its features
    return b(lambda x: features(kernel, x[None])[0]).T
