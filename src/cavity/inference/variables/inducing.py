"""Inducing variables: whitened, with a standard normal prior, in precision form."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from cavity.inference.graph.base import (
    AbstractProjectedBelief,
    AbstractProjectedVariable,
    AbstractResponse,
    Messages,
)
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.messages import added
from cavity.numerics.linalg import (
    cholesky_and_inverse,
    gram_lower,
    gram_weighted,
    log_determinant,
    quadratic_forms,
    with_slopes,
)
from cavity.numerics.types import Array, Float, Int, Scalar

# From so many rows for each inducing variable on, covariances cost less than they save.
MANY_ROWS = 2


class InducingBelief(AbstractProjectedBelief):
    r"""$q(\mathbf v) = \mathcal N(\mathbf m, \mathbf B^{-1})$, one B per group of outputs.

    Attributes:
        mean: means.
        root: inverses of the lower Cholesky factors of B.
        log_normaliser: log-partition of the belief less that of the prior, with the scales of the
            messages.
        as_forms: whether variances of many rows are quadratic forms, which take two thirds of
            the products that value and gradient of sums of squares do. Sums of squares are never
            negative, and accurate where variances are tiny.
    """

    mean: Float[Array, "G R M"]
    root: Float[Array, "G M M"]
    log_normaliser: Scalar
    as_forms: bool = eqx.field(static=True, default=False)

    def marginal(
        self, projection: Projection
    ) -> tuple[Float[Array, "*rows P"], Float[Array, "..."]]:
        A = projection.loadings
        assert A is not None
        flat = A.reshape(A.shape[0], -1)
        mean = jnp.moveaxis((self.mean @ flat).reshape(-1, *A.shape[1:]), 0, -1)
        size, outputs = self.root.shape[-1], mean.shape[-1]
        if self.as_forms and A.ndim == 2 and A.shape[1] >= MANY_ROWS * size:
            var = quadratic_forms(self.response().covariance, A)
            return mean, jnp.broadcast_to(jnp.maximum(var, 0.0).T, mean.shape)
        # aᵀ B⁻¹ a = |L⁻¹ a|²
        half = (self.root @ flat).reshape(*self.root.shape[:2], *A.shape[1:])
        if A.ndim == 2:
            var = jnp.sum(half**2, axis=1).T
            return mean, jnp.broadcast_to(var, mean.shape)
        cov = jnp.einsum("gmkb,gmkc->kgbc", half, half)
        return mean, jnp.broadcast_to(cov, (cov.shape[0], outputs, *cov.shape[2:]))

    def dense(self) -> tuple[Float[Array, "P M"], Float[Array, "P M M"]]:
        groups, replicas, size = self.mean.shape
        cov = jnp.repeat(self.response().covariance, replicas, axis=0)
        return self.mean.reshape(groups * replicas, size), cov

    def slopes(self) -> Messages:
        """Derivatives of the log normaliser in the messages: the moments."""
        one = jnp.ones((), self.mean.dtype)
        return _slopes(self.mean, self.response().covariance, one)

    def response(self) -> "InducingResponse":
        return InducingResponse(jnp.swapaxes(self.root, -1, -2) @ self.root)


class InducingResponse(AbstractResponse):
    """Through the covariance: mean + B⁻¹h, covariance - B⁻¹PB⁻¹."""

    covariance: Float[Array, "G M M"]

    def change(self, messages: Messages) -> tuple[Array, Array]:
        mean = messages.shift @ self.covariance
        return mean, -self.covariance @ messages.precision @ self.covariance

    def marginal(
        self, change: tuple[Array, Array], projection: Projection
    ) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        A = projection.loadings
        assert A is not None
        mean = (change[0] @ A).reshape(-1, A.shape[1]).T
        var = jnp.sum(A * (change[1] @ A), axis=1).T
        return mean, jnp.broadcast_to(var, mean.shape)


class WhitenedInducing(AbstractProjectedVariable):
    r"""A variable with prior $\mathcal N(0, \mathbf I)$, such as $\mathbf L^{-1} \mathbf u$.

    A precision is the identity plus a sum over rows, so no prior covariance is inverted.

    Attributes:
        size: the number of variables.
        received: messages that came before those of the rows at hand; None for none.
    """

    size: int = eqx.field(static=True)
    received: Messages | None = None

    def messages_from_sites(
        self,
        shift: Float[Array, "..."],
        precision: Float[Array, "..."],
        log_scale: Float[Array, " rows"],
        projection: Projection,
    ) -> Messages:
        A = projection.loadings
        assert A is not None
        if A.ndim == 2:
            # Σ τ a aᵀ
            P = jnp.stack([gram_weighted(A, t) for t in precision.T])
            h = (A @ shift).T
        else:
            flat = A.reshape(A.shape[0], -1)
            TA = jnp.einsum("kgbc,mkc->gmkb", precision, A)
            P = TA.reshape(precision.shape[1], A.shape[0], -1) @ flat.T
            h = (flat @ jnp.moveaxis(shift, 1, 2).reshape(flat.shape[1], -1)).T
        h = h.reshape(P.shape[0], -1, self.size)
        return Messages(h, P, jnp.sum(log_scale))

    def replace_rows(
        self, messages: Messages, index: Int[Array, " rows"], change: Messages
    ) -> Messages:
        return jax.tree.map(jnp.add, messages, change)

    def belief(self, messages: Messages) -> InducingBelief:
        total = messages if self.received is None else added(messages, self.received)
        mean, root, _, value = condition_standard_normal(total)
        return InducingBelief(mean, root, value)


def condition_standard_normal(
    messages: Messages,
) -> tuple[Float[Array, "G R M"], Float[Array, "G M M"], Float[Array, "G M M"], Scalar]:
    r"""Posterior of a standard normal prior and messages $\mathbf h, \mathbf P$.

    Returns the means, the inverses of the lower Cholesky factors of $\mathbf B = \mathbf I +
    \mathbf P$, the covariances $\mathbf B^{-1}$ and the log normaliser.
    """
    h, P, log_scale = messages.shift, messages.precision, messages.log_scale
    B = jnp.eye(P.shape[-1], dtype=P.dtype) + P
    L, root = jax.vmap(cholesky_and_inverse)(B)
    half = solve_triangular(L, jnp.swapaxes(h, -1, -2), lower=True)
    mean = jnp.swapaxes(solve_triangular(L, half, lower=True, trans=1), -1, -2)
    covariance, replicas = jax.vmap(gram_lower)(root), h.shape[1]
    # ½ hᵀB⁻¹h - ½ log|B|: its derivatives are moments
    value = 0.5 * (jnp.sum(half**2) - replicas * jnp.sum(log_determinant(L)))
    slopes = _slopes(mean, covariance, jnp.ones_like(log_scale))
    return mean, root, covariance, with_slopes(value + log_scale, slopes, messages)


def _slopes(
    mean: Float[Array, "G R M"], covariance: Float[Array, "G M M"], one: Scalar
) -> Messages:
    """Derivatives of the log normaliser in the messages: moments, summed over replicas."""
    replicas = mean.shape[1]
    square = replicas * covariance + jnp.swapaxes(mean, -1, -2) @ mean
    return Messages(mean, -0.5 * square, one)
