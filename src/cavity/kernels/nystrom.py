"""The Nystrom kernel: what points explain of another kernel, as a model of its own."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from cavity.kernels.base import AbstractKernel, check_columns
from cavity.kernels.random_fourier import feature_count, features
from cavity.numerics.linalg import cholesky_and_inverse, jittered
from cavity.numerics.types import Array, Float
from cavity.parameters import real

# Share of the variance at the points that is added to the diagonal of their covariance.
JITTER = 1e-8


class Nystrom(AbstractKernel):
    r"""The part of a kernel that M points explain: subset of regressors (SoR).

    $$q(\mathbf x, \mathbf x') = k(\mathbf x, \mathbf Z) k(\mathbf Z, \mathbf Z)^{-1}
        k(\mathbf Z, \mathbf x')$$

    A full GP with this kernel, `GP(Nystrom(kernel, Z), likelihood)`, is worked out by M features,
    exactly and at a cost of N M², for every likelihood and power. Its evidence is that of
    `PowerEP(dtc=True)` with the same points. Functions return to zero, with variance zero, away
    from the points: error bars there are not to be trusted, and the kernel is there for
    comparison.

    Args:
        kernel: the other kernel.
        Z: the points, (M, D), learned like the parameters of the kernel.

    Raises:
        ValueError: where Z is no table of numbers with a row at the least.

    References:
        Bui (2017), S7; Quinonero-Candela and Rasmussen (2005).
    """

    kernel: AbstractKernel
    Z: Float[Array, "M D"] = real(input=1, location=True)

    def __init__(self, kernel: AbstractKernel, Z: Any):
        if np.ndim(Z) != 2 or np.shape(Z)[0] < 1:
            raise ValueError(
                f"Z must be a matrix of points, (M, D), with a row at the least; given shape "
                f"{np.shape(Z)}"
            )
        self.kernel = kernel
        self.Z = Z

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "K D"]) -> Float[Array, "N K"]:
        return features(self, X) @ features(self, Z).T

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return jnp.sum(features(self, X) ** 2, axis=1)


@feature_count.register
def _(kernel: Nystrom) -> int | None:
    return np.shape(kernel.Z)[0]


@features.register
def _(kernel: Nystrom, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
    Z = kernel.Z
    check_columns(X, Z)
    inside = kernel.kernel.cross(Z, Z)
    _, root = cholesky_and_inverse(jittered(inside, JITTER, kernel.kernel.diag(Z)))
    return kernel.kernel.cross(X, Z) @ root.T
