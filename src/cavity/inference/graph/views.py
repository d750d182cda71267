"""Views of a Gaussian process: projections of rows on function values or inducing variables."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inducing.base import AbstractInducing, Points, covariance, variances_from
from cavity.inference.factors.fused_gaussian import fused_gaussian_messages
from cavity.inference.factors.gaussian_sites import projected_gaussian_messages
from cavity.inference.graph.base import (
    AbstractProjectedVariable,
    AbstractWhitenedView,
    Messages,
    Projection,
)
from cavity.inference.graph.rows import Rows
from cavity.kernels.base import AbstractKernel
from cavity.numerics.linalg import cholesky_and_inverse, jittered, product_lower
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar


class OutputMean(eqx.Module):
    """A mean function with one column per output."""

    mean: Callable[[Float[Array, "N D"]], Array]
    outputs: int = eqx.field(static=True)

    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N P"]:
        value = self.mean(X)
        columns = value[:, None] if value.ndim == 1 else value
        return jnp.broadcast_to(columns, (X.shape[0], self.outputs))


class InducingView(AbstractWhitenedView):
    r"""Rows see whitened inducing variables $\mathbf v = \mathbf L^{-1} \mathbf u$.

    Loadings are $\mathbf A = \mathbf L^{-1} \mathbf K_{uf}$; what inducing variables do not
    explain is the residual $\mathbf D = \mathbf K_{ff} - \mathbf A^\top \mathbf A$, its diagonal
    or its diagonal blocks.
    """

    kernel: AbstractKernel
    inducing: AbstractInducing
    mean: OutputMean
    factor: Float[Array, "M M"]  # L
    root: Float[Array, "M M"]  # L⁻¹

    def covariances(
        self, rows: Rows
    ) -> tuple[Float[Array, "M N"], Float[Array, " N"], Float[Array, "N P"]]:
        x = rows.x.reshape(-1, rows.x.shape[-1])
        cross = covariance(self.kernel, self.inducing, Points(x))
        return cross, self.kernel.diag(x), self.mean(x)

    def project(self, rows: Rows) -> Projection:
        cross, variance, offset = self.covariances(rows)
        A = product_lower(self.root, cross)
        if not rows.blocked:
            residual = jnp.maximum(variance - jnp.sum(A**2, axis=0), 0.0)
            return Projection(A, residual, offset)
        shape = rows.x.shape[:2]
        A = A.reshape(A.shape[0], *shape)
        prior = jax.vmap(self.prior_covariance)(rows.x)
        residual = prior - jnp.einsum("mkb,mkc->kbc", A, A)
        return Projection(A, residual, offset.reshape(*shape, -1))

    def gaussian_messages(
        self,
        variable: AbstractProjectedVariable,
        rows: Rows,
        noise_variance: Callable[..., Array],
        power: Power,
        chunk: int,
    ) -> Messages:
        if rows.blocked:
            return projected_gaussian_messages(self, variable, rows, noise_variance, power, chunk)
        return fused_gaussian_messages(self, rows, noise_variance, power)

    def prior_covariance(self, x: Float[Array, "B D"]) -> Float[Array, "B B"]:
        """The prior covariance of the function at some inputs, its diagonal exact."""
        return jittered(self.kernel.cross(x, x), 0.0, self.kernel.diag(x))


def inducing_view(
    kernel: AbstractKernel, inducing: AbstractInducing, mean: OutputMean, jitter: float | Scalar
) -> InducingView:
    """The view of rows on whitened inducing variables, `jitter` relative to their variance."""
    Kuu = covariance(kernel, inducing, inducing)
    diag = variances_from(inducing, kernel, Kuu)
    jitter = 0.0 if inducing.orthonormal else jitter
    factor, root = cholesky_and_inverse(jittered(Kuu, jitter, diag))
    return InducingView(kernel=kernel, inducing=inducing, mean=mean, factor=factor, root=root)
