r"""The functions of several classes as one Gaussian variable, coupled row by row.

Rows send $\operatorname{diag}(\boldsymbol\pi_n) - \boldsymbol\pi_n \boldsymbol\pi_n^\top / s_n$,
$s_n = \mathbf 1^\top \boldsymbol\pi_n$: over all rows blocks of classes less a coupling of rank N.
With $\mathbf D_k$ the k-th entries of all $\boldsymbol\pi_n$,

$$\mathbf A_k = \mathbf I + \mathbf D_k^{1/2} \mathbf K_k \mathbf D_k^{1/2}, \quad
\mathbf B_k = \mathbf D_k^{1/2} \mathbf A_k^{-1} \mathbf D_k^{1/2}, \quad
\mathbf P = \textstyle\sum_k \mathbf B_k$$

give the covariance blocks
$\delta_{kl} (\mathbf K_k - \mathbf K_k \mathbf B_k \mathbf K_k) + \mathbf K_k \mathbf B_k
\mathbf P^{-1} \mathbf B_l \mathbf K_l$ in time O(C N³), and
$\log |\mathbf I + \mathbf K \mathbf T| = \sum_k \log |\mathbf A_k| + \log |\mathbf P| -
\sum_n \log s_n$.

References:
    Jylanki (2013), S77.
"""

import abc
from collections.abc import Callable
from typing import TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from cavity.inference.graph.base import AbstractBelief, AbstractVariable, Messages
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.messages import added
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.variables.class_contrasts import Contrasts
from cavity.inference.variables.inducing import condition_standard_normal
from cavity.numerics.linalg import (
    cholesky,
    gram_lower,
    gram_weighted,
    inverse_lower,
    log_determinant,
    safe_sqrt,
)
from cavity.numerics.types import Array, Float, Scalar

Result = TypeVar("Result")

# The least weight of a row on a class, as a share of the prior precision: nothing, but no zero.
LEAST = 1e-12


class AbstractClassBelief(AbstractBelief):
    """A belief about the functions of all classes.

    To implement:
        `log_normaliser`, `functions(projection)` and `contrasts(projection, contrasts, sites)`.
    """

    @abc.abstractmethod
    def functions(
        self, projection: Projection
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C C"]]:
        """Means and covariances of the functions of all classes at each row."""

    @abc.abstractmethod
    def contrasts(
        self, projection: Projection, contrasts: Contrasts, sites: AbstractSites
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C"]]:
        """Means and variances of the contrasts of each row, under its own sites."""


class AbstractClassVariable(AbstractVariable):
    """The functions of all classes as one variable.

    To implement:
        `belief(messages)` and `messages_from_classes(shift, weights, log_scale, projection)`.
    """

    @abc.abstractmethod
    def messages_from_classes(
        self,
        shift: Float[Array, "N C"],
        weights: Float[Array, "N C"],
        log_scale: Float[Array, " N"],
        projection: Projection,
    ) -> Messages:
        r"""The messages of rows with these shifts and weights $\boldsymbol\pi$."""


class CoupledClassValuesBelief(AbstractClassBelief):
    r"""$q(\mathbf f^1, \dots, \mathbf f^C)$ of the values at the data, in covariance form."""

    weights: Float[Array, "C N"]  # means are K w
    precision: Float[Array, "C N"]  # the diagonals of D
    blocks: Float[Array, "C N N"]  # B
    factor: Float[Array, "N N"]  # the lower Cholesky factor of P
    root: Float[Array, "N N"]  # its inverse
    covariance: Float[Array, "G N N"]
    log_normaliser: Scalar

    def functions(
        self, projection: Projection
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C C"]]:
        def half(own: Array, weighed: Array) -> tuple[Array, Array]:
            # KB = I - D⁻¹ B
            return own, self.root.T - weighed

        own, halves = self._map_class_values(half)
        cov = jnp.einsum("knm,lnm->nkl", halves, halves)
        return self._means(), cov + own.T[:, :, None] * jnp.eye(len(own), dtype=own.dtype)

    def contrasts(
        self, projection: Projection, contrasts: Contrasts, sites: AbstractSites
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C"]]:
        s = jnp.sum(self.precision, axis=0)
        # the weighted mean of I - B_k D_k⁻¹ is I - P / s
        common = self.factor / s[:, None]

        def contrast(own: Array, weighed: Array) -> tuple[Array, Array]:
            return own, jnp.sum((common - weighed) ** 2, axis=1)

        own, spread = self._map_class_values(contrast)
        return contrasts.apart(self._means(), own.T, spread.T, sites.shift, sites.precision)

    def _means(self) -> Float[Array, "N C"]:
        return _times(self.covariance, self.weights).T

    def _map_class_values(
        self, fn: Callable[[Array, Array], tuple[Array, Array]]
    ) -> tuple[Array, Array]:
        """Maps over the classes a function of own variances and of D⁻¹ B P^-T/2.

        Own variances are those of one class heard alone, the diagonal of K - KBK.
        """

        def one(parts: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            K, B, pi = parts
            left = jnp.diagonal(B) / pi  # of I - KB: small where the data say much
            share = jnp.where(left < 0.5, 1.0 - left, jnp.sum(K * B, axis=1))
            own = cast(Array, share) / pi
            return fn(jnp.maximum(own, 0.0), (B @ self.root.T) / pi[:, None])

        return _map_classes(one, self.covariance, self.blocks, self.precision)

    def dense(self) -> tuple[Float[Array, "1 M"], Float[Array, "1 M M"]]:
        K = _each(self.covariance, len(self.weights))
        BK = jnp.einsum("kij,kjl->kil", self.blocks, K)
        half = jnp.concatenate([self.root @ x for x in BK], axis=1)
        own = jax.scipy.linalg.block_diag(*(k - k @ bk for k, bk in zip(K, BK, strict=True)))
        mean = jnp.einsum("kij,kj->ki", K, self.weights)
        return mean.reshape(1, -1), (own + half.T @ half)[None]


class CoupledClassValues(AbstractClassVariable):
    """The values of the functions of all classes at the data; they are independent a priori.

    Attributes:
        covariance: prior covariances, one per class, or one for all.
        classes: their number.
    """

    covariance: Float[Array, "G N N"]
    classes: int = eqx.field(static=True)

    def messages_from_classes(
        self,
        shift: Float[Array, "N C"],
        weights: Float[Array, "N C"],
        log_scale: Float[Array, " N"],
        projection: Projection,
    ) -> Messages:
        return Messages(shift, weights, log_scale)

    def belief(self, messages: Messages) -> CoupledClassValuesBelief:
        height = jnp.mean(jnp.diagonal(self.covariance, axis1=1, axis2=2))
        nu, pi = messages.shift.T, jnp.maximum(messages.precision.T, LEAST / height)

        def one(parts: tuple[Array, Array]) -> tuple[Array, Array]:
            K, each = parts
            d = safe_sqrt(each)
            L = cholesky(jnp.eye(len(d), dtype=d.dtype) + d[:, None] * K * d)
            return gram_lower(inverse_lower(L) * d), log_determinant(L)

        blocks, volumes = _map_classes(one, self.covariance, pi)
        L = cholesky(jnp.sum(blocks, axis=0))
        s, K = jnp.sum(pi, axis=0), self.covariance

        def solved(nu: Array) -> Array:
            """(I + TK)⁻¹ ν."""
            heard = _times(blocks, _times(K, nu))
            common = cho_solve((L, True), jnp.sum(heard, axis=0))
            return nu - heard + blocks @ common

        weights = solved(nu)
        # P is nearly singular in the height that all classes share: one step of refinement
        seen = pi * _times(K, weights)
        weights = weights + solved(nu - weights - seen + pi * (jnp.sum(seen, axis=0) / s))
        gained = jnp.sum(nu * _times(K, weights))
        volume = jnp.sum(volumes) + log_determinant(L) - jnp.sum(jnp.log(s))
        value = 0.5 * (gained - volume) + jnp.sum(messages.log_scale)
        root = inverse_lower(L)
        return CoupledClassValuesBelief(weights, pi, blocks, L, root, self.covariance, value)


class CoupledClassInducingBelief(AbstractClassBelief):
    r"""$q(\mathbf v^1, \dots, \mathbf v^C)$ of whitened inducing variables of all classes."""

    mean: Float[Array, "C M"]
    covariance: Float[Array, "C M C M"]
    log_normaliser: Scalar

    def functions(self, projection: Projection) -> tuple[Array, Array]:
        A = projection.loadings
        assert A is not None
        count, shared = self.mean.shape[0], A.shape[0] == 1
        mean = jnp.einsum("kmn,km->nk", _each(A, count), self.mean)
        first, second = jnp.triu_indices(count)

        def pair(which: tuple[Array, Array]) -> Array:
            k, j = which
            left, right = (A[0], A[0]) if shared else (A[k], A[j])
            return jnp.sum(left * (self.covariance[k, :, j, :] @ right), axis=0)

        values = jax.lax.map(pair, (first, second))
        cov = jnp.zeros((count, count, values.shape[1]), values.dtype)
        cov = cov.at[first, second].set(values).at[second, first].set(values)
        return mean, jnp.moveaxis(cov, 2, 0)

    def contrasts(
        self, projection: Projection, contrasts: Contrasts, sites: AbstractSites
    ) -> tuple[Float[Array, "N C"], Float[Array, "N C"]]:
        moments = self.functions(projection)
        return contrasts.marginal(*moments, sites.shift, sites.precision)

    def dense(self) -> tuple[Float[Array, "1 M"], Float[Array, "1 M M"]]:
        size = self.mean.size
        return self.mean.reshape(1, size), self.covariance.reshape(1, size, size)


class CoupledClassInducing(AbstractClassVariable):
    r"""Whitened inducing variables of all classes, prior $\mathcal N(0, \mathbf I)$.

    Attributes:
        size: their number for each class.
        classes: the number of classes.
        received: messages that came before those of the rows at hand; None for none.
    """

    size: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    received: Messages | None = None

    def messages_from_classes(
        self,
        shift: Float[Array, "N C"],
        weights: Float[Array, "N C"],
        log_scale: Float[Array, " N"],
        projection: Projection,
    ) -> Messages:
        nu, pi = shift, weights
        assert projection.loadings is not None
        A = _each(projection.loadings, self.classes)
        h = jnp.einsum("kmn,nk->km", A, nu)
        s = jnp.sum(pi, axis=1)
        coupled = (A * (pi / jnp.sqrt(s)[:, None]).T[:, None, :]).reshape(-1, len(s))
        P = gram_weighted(coupled, -jnp.ones_like(s))
        P = P.reshape(self.classes, self.size, self.classes, self.size)
        own = jnp.stack([gram_weighted(a, w) for a, w in zip(A, pi.T, strict=True)])
        index = jnp.arange(self.classes)
        # indexed axes come first where they are apart
        P = P.at[index, :, index, :].add(own)
        return Messages(h, P, jnp.sum(log_scale))

    def belief(self, messages: Messages) -> CoupledClassInducingBelief:
        messages = messages if self.received is None else added(messages, self.received)
        h, P = messages.shift.reshape(1, 1, -1), messages.precision
        mean, _, covariance, value = condition_standard_normal(
            Messages(h, P.reshape(1, h.size, h.size), messages.log_scale)
        )
        mean, covariance = mean.reshape(messages.shift.shape), covariance.reshape(P.shape)
        return CoupledClassInducingBelief(mean, covariance, value)


def _each(x: Float[Array, "G ..."], classes: int) -> Array:
    """One entry per class, of one for all."""
    return jnp.broadcast_to(x, (classes, *x.shape[1:]))


def _times(matrices: Float[Array, "G N N"], vectors: Float[Array, "C N"]) -> Float[Array, "C N"]:
    """The product of each vector with its matrix, or with the one of all; they are symmetric."""
    if matrices.shape[0] == 1:
        return vectors @ matrices[0]
    return jnp.einsum("kij,kj->ki", matrices, vectors)


def _map_classes(
    fn: Callable[..., Result], covariance: Float[Array, "G N N"], *parts: Array
) -> Result:
    """Maps over the classes, one at a time, a function of a covariance and parts of its own."""
    if covariance.shape[0] == 1:
        return jax.lax.map(lambda x: fn((covariance[0], *x)), parts)
    return jax.lax.map(fn, (covariance, *parts))
