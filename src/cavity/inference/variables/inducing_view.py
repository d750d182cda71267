"""Views of a Gaussian process: projections of rows on function values or inducing variables."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inducing.base import AbstractInducing, Points, covariance, variances_from
from cavity.inducing.slopes import Slopes, directions
from cavity.inference.graph.base import AbstractProjectedVariable, AbstractWhitenedView, Messages
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.rows import SLOPES, Rows
from cavity.inference.variables.fused_gaussian import fused_gaussian_messages
from cavity.inference.variables.gaussian_sites import projected_gaussian_messages
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


def observed(rows: Rows) -> Points | Slopes:
    """Functionals that rows observe: values, or slopes where side data say so."""
    x, columns = rows.x.reshape(-1, rows.x.shape[-1]), rows.side.get(SLOPES)
    return Points(x) if columns is None else Slopes(x, columns.reshape(-1).astype(int))


def observed_mean(
    mean: Callable[[Float[Array, "N D"]], Float[Array, "N P"]], rows: Rows
) -> Float[Array, "N P"]:
    """The prior mean of what rows see."""
    functionals = observed(rows)
    if isinstance(functionals, Points):
        return mean(functionals.Z)
    value, slope = jax.jvp(mean, (functionals.Z,), (directions(functionals),))
    return jnp.where(functionals.columns[:, None] < 0, value, slope)


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
    number: int | None = eqx.field(static=True, default=None)

    def covariances(
        self, rows: Rows
    ) -> tuple[Float[Array, "M N"], Float[Array, " N"], Float[Array, "N P"]]:
        seen = observed(rows)
        cross = covariance(self.kernel, self.inducing, seen)
        return cross, variances_from(seen, self.kernel), observed_mean(self.mean, rows)

    def explained(self, rows: Rows) -> tuple[Float[Array, "*rows M"], Float[Array, "..."]]:
        A, residual = self._explained(rows)
        return jnp.swapaxes(A, 0, 1), residual

    def project(self, rows: Rows) -> Projection:
        carried = None if self.number is None else rows.projections.get(self.number)
        if carried is None:
            A, residual = self._explained(rows)
        else:
            A, residual = jnp.swapaxes(carried[0], 0, 1), carried[1]
        offset = observed_mean(self.mean, rows)
        return Projection(A, residual, offset.reshape(*rows.x.shape[:-1], -1))

    def _explained(self, rows: Rows) -> tuple[Float[Array, "M *rows"], Float[Array, "..."]]:
        cross, variance, _ = self.covariances(rows)
        A = product_lower(self.root, cross)
        if not rows.blocked:
            return A, jnp.maximum(variance - jnp.sum(A**2, axis=0), 0.0)
        A = A.reshape(A.shape[0], *rows.x.shape[:2])
        return A, self._prior_of_blocks(rows) - jnp.einsum("mkb,mkc->kbc", A, A)

    def gaussian_messages(
        self,
        variable: AbstractProjectedVariable,
        rows: Rows,
        noise_variance: Callable[..., Array],
        power: Power,
        chunk: int,
        volume: float | None = None,
    ) -> Messages:
        if rows.blocked:
            data = (rows, noise_variance, power, chunk, volume)
            return projected_gaussian_messages(self, variable, *data)
        return fused_gaussian_messages(self, rows, noise_variance, power, volume)

    def _prior_of_blocks(self, rows: Rows) -> Float[Array, "K B B"]:
        columns = rows.side.get(SLOPES)
        if columns is None:
            return jax.vmap(self.prior_covariance)(rows.x)

        def block_covariance(x: Float[Array, "B D"], columns: Float[Array, " B"]) -> Array:
            functionals = Slopes(x, columns.astype(int))
            return covariance(self.kernel, functionals, functionals)

        return jax.vmap(block_covariance)(rows.x, columns)

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
