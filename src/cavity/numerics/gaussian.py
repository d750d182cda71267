r"""Gaussians in natural parameters: products, quotients and powers are sums of parameters.

A Gaussian factor is $\exp(\mathbf h^\top \mathbf v - \tfrac12 \mathbf v^\top \mathbf P \mathbf v)$
with shift $\mathbf h$ and precision $\mathbf P$; it need not be normalisable. Its log-partition
$\Phi = \log \int \exp(\cdot)\, d\mathbf v$ includes the $2\pi$ term.
"""

import abc
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from cavity.numerics.linalg import cholesky, log_determinant
from cavity.numerics.types import Array, Float, Scalar

LOG_2PI = 1.8378770664093453
G = TypeVar("G", bound="AbstractGaussian")


class AbstractGaussian(eqx.Module):
    """A Gaussian, or a batch of independent ones, in natural parameters.

    To implement:
        fields `shift` and `precision`, `log_partition()` and `moments()`.
    """

    shift: eqx.AbstractVar[Array]
    precision: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def log_partition(self) -> Scalar:
        """The sum of the log-partitions, in nats; NaN where a precision is not positive."""

    @abc.abstractmethod
    def moments(self) -> tuple[Array, Array]:
        """The means, and the variances or covariances."""

    def __mul__(self: G, other: G) -> G:
        return jax.tree.map(jnp.add, self, other)

    def __truediv__(self: G, other: G) -> G:
        return jax.tree.map(jnp.subtract, self, other)

    def __pow__(self: G, power: float | Array) -> G:
        return jax.tree.map(lambda x: power * x, self)


class Diagonal(AbstractGaussian):
    """Independent scalar Gaussians; shift and precision have equal or broadcastable shapes."""

    shift: Float[Array, "..."]
    precision: Float[Array, "..."]

    def log_partition(self) -> Scalar:
        # Φ = ½ h²/p - ½ log p + ½ log 2π
        terms = self.shift**2 / self.precision - jnp.log(self.precision) + LOG_2PI
        return 0.5 * jnp.sum(terms)

    def moments(self) -> tuple[Array, Array]:
        return self.shift / self.precision, jnp.broadcast_to(
            1.0 / self.precision, jnp.broadcast_shapes(self.shift.shape, self.precision.shape)
        )


class Dense(AbstractGaussian):
    """Groups of Gaussian vectors; the R vectors of a group share one precision.

    Sharing is what several outputs with the same inputs and noise need: one factorisation.
    """

    shift: Float[Array, "... R M"]
    precision: Float[Array, "... M M"]

    def log_partition(self) -> Scalar:
        L = cholesky(self.precision)
        mean = self._solve(L)
        replicas, size = self.shift.shape[-2:]
        # Φ = ½ hᵀP⁻¹h - ½ log|P| + M/2 log 2π
        normaliser = replicas * (size * LOG_2PI - log_determinant(L))
        return 0.5 * (jnp.sum(self.shift * mean) + jnp.sum(normaliser))

    def moments(self) -> tuple[Array, Array]:
        L = cholesky(self.precision)
        eye = jnp.broadcast_to(jnp.eye(L.shape[-1], dtype=L.dtype), L.shape)
        return self._solve(L), cho_solve((L, True), eye)

    def _solve(self, L: Float[Array, "... M M"]) -> Float[Array, "... R M"]:
        return jnp.swapaxes(cho_solve((L, True), jnp.swapaxes(self.shift, -1, -2)), -1, -2)


def kl_divergence(q: Dense, p: Dense) -> Scalar:
    r"""KL divergence $\mathrm{KL}(q \Vert p)$ between normalisable Gaussians, in nats.

    $\Phi(p) - \Phi(q) + \mathbb E_q[\log (q/p)]$ of the unnormalised densities.
    """
    mean, cov = q.moments()
    ratio = q / p
    replicas = q.shift.shape[-2]
    linear = jnp.sum(ratio.shift * mean)
    quadratic = jnp.einsum("...rm,...mk,...rk->", mean, ratio.precision, mean)
    trace = replicas * jnp.sum(ratio.precision * cov)
    return p.log_partition() - q.log_partition() + linear - 0.5 * (quadratic + trace)
