"""The full Gaussian process: function values at the data, in covariance form."""

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from cavity.inference.graph.base import (
    AbstractProjectedBelief,
    AbstractProjectedVariable,
    AbstractProjectedView,
    AbstractResponse,
    Messages,
)
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.gaussian_sites import projected_gaussian_messages
from cavity.inference.variables.inducing_view import observed_mean
from cavity.numerics.linalg import (
    cholesky_and_inverse,
    gram_lower,
    log_determinant,
    safe_sqrt,
    with_slopes,
)
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Bool, Float, Int, Scalar


@dataclasses.dataclass(frozen=True)
class FunctionValuesSettings:
    """Thresholds between expressions of the covariance form.

    Attributes:
        certain: precision, over the prior's, above which a site sets the scale of its value.
        telling: the same, above which a variance follows from the site's precision.
        shares: one row in so many is below `telling`, at first, and where there are more.
        small: rows up to which all variances are computed whole: that is less to compile.
    """

    certain: float = 1e-6
    telling: float = 1e-5
    shares: tuple[int, ...] = (32, 6)
    small: int = 128


SETTINGS = FunctionValuesSettings()


class FunctionValuesBelief(AbstractProjectedBelief):
    r"""$q(\mathbf f)$ of the values at the data, in covariance form.

    Its covariance is $\mathbf K - \mathbf K \mathbf R^\top \mathbf R \mathbf K$, plus
    $\mathbf K \mathbf S^\top \mathbf S \mathbf K$ where precisions may be negative, and its
    mean is $\mathbf K \mathbf w$.
    """

    weights: Float[Array, "N P"]
    root: Float[Array, "G N N"]  # R
    precision: Float[Array, "G N"]  # of the sites that add some
    raised: Float[Array, "G N N"] | None  # S
    covariance: Float[Array, "N N"]
    log_normaliser: Scalar

    def marginal(
        self, projection: Projection
    ) -> tuple[Float[Array, "*rows P"], Float[Array, "..."]]:
        mean = self.covariance @ self.weights
        var = _variances(self.covariance, self.root, self.precision).T
        if self.raised is not None:
            var = var + jnp.sum((self.raised @ self.covariance) ** 2, axis=1).T
        return mean, jnp.broadcast_to(jnp.maximum(var, 0.0), mean.shape)

    def dense(self) -> tuple[Float[Array, "P M"], Float[Array, "P M M"]]:
        mean = (self.covariance @ self.weights).T
        cov = self.response().covariance
        return mean, jnp.repeat(cov, mean.shape[0] // cov.shape[0], axis=0)

    def response(self) -> "FunctionValuesResponse":
        half = self.root @ self.covariance
        cov = self.covariance - jnp.swapaxes(half, -1, -2) @ half
        if self.raised is not None:
            half = self.raised @ self.covariance
            cov = cov + jnp.swapaxes(half, -1, -2) @ half
        return FunctionValuesResponse(cov)


def _variances(
    K: Float[Array, "N N"], root: Float[Array, "G N N"], tau: Float[Array, "G N"]
) -> Float[Array, "G N"]:
    r"""The diagonal of $\mathbf K - \mathbf K \mathbf R^\top \mathbf R \mathbf K$.

    Where site precisions are not negligible it is $(1 - [\mathbf R^\top \mathbf R]_{nn} / \tau_n)
    / \tau_n$, without a product of matrices, and to more digits where they exceed the prior's. The
    rows with the least precise sites, padding among them, are computed by the full formula; all
    rows are if there are too many of these.
    """
    prior = jnp.diagonal(K)
    known = tau * prior
    safe = jnp.where(known > SETTINGS.telling, tau, 1.0)
    told = (1.0 - jnp.sum(root**2, axis=1) / safe) / safe

    def whole() -> Array:
        computed = prior - jnp.sum((root @ K) ** 2, axis=1)
        return cast(Array, jnp.where(known > 1.0, told, computed))

    if K.shape[0] <= SETTINGS.small:
        return whole()
    counts = [max(K.shape[0] // share, 1) for share in SETTINGS.shares]
    least, index = jax.lax.top_k(-known, max(counts))

    def but(count: int) -> Array:
        few = index[:, :count]
        columns = jnp.moveaxis(K[:, few], 1, 0)  # G N count
        rest = prior[few] - jnp.sum((root @ columns) ** 2, axis=1)
        both = told, known, few, rest
        return jax.vmap(lambda t, k, i, r: t.at[i].set(jnp.where(k[i] > 1.0, t[i], r)))(*both)

    # how many of the counts are too few: all rows beyond them must be told by their sites
    short = sum(jnp.any(least[:, c - 1] >= -SETTINGS.telling).astype(int) for c in counts)
    branches = [functools.partial(but, count) for count in counts]
    return jax.lax.switch(jnp.asarray(short), [*branches, whole])


class FunctionValuesResponse(AbstractResponse):
    """Through the covariance: mean + Σh, variances - Σ∘Σ τ."""

    covariance: Float[Array, "G N N"]

    def change(self, messages: Messages) -> tuple[Array, Array]:
        mean = jnp.einsum("gij,jg->ig", self.covariance, messages.shift)
        return mean, -jnp.einsum("gij,jg->ig", self.covariance**2, messages.precision)

    def marginal(
        self, change: tuple[Array, Array], projection: Projection
    ) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        return change


class FunctionValues(AbstractProjectedVariable):
    r"""The values of the function at the data, prior $\mathcal N(0, \mathbf K)$.

    The covariance is never factorised alone, so it may be singular. Messages stay one per row.

    Attributes:
        covariance: K.
        mixed: whether precisions may be negative; costs a second factorisation.

    References:
        Jylanki (2013), S27.
    """

    covariance: Float[Array, "N N"]
    mixed: bool = eqx.field(static=True, default=False)
    holds_values: ClassVar[bool] = True

    def messages_from_sites(
        self,
        shift: Float[Array, "..."],
        precision: Float[Array, "..."],
        log_scale: Float[Array, " rows"],
        projection: Projection,
    ) -> Messages:
        return Messages(shift, precision, log_scale)

    def replace_rows(
        self, messages: Messages, index: Int[Array, " rows"], change: Messages
    ) -> Messages:
        return jax.tree.map(lambda x, d: x.at[index].add(d), messages, change)

    def belief(self, messages: Messages) -> FunctionValuesBelief:
        K, tau = self.covariance, messages.precision  # N N, N G
        groups = tau.shape[1]
        replicas = messages.shift.shape[1] // groups
        # shifts of sites that say next to nothing of the scale of z are kept for later
        certain = tau * jnp.diagonal(K)[:, None] > SETTINGS.certain
        s = safe_sqrt(tau).T  # G N
        u = jnp.where(certain, messages.shift / jnp.sqrt(jnp.where(certain, tau, 1.0)), 0.0)
        eye = jnp.eye(K.shape[0], dtype=K.dtype)
        # B = I + T^½ K T^½
        L, root = jax.vmap(cholesky_and_inverse)(eye + s[:, :, None] * K * s[:, None, :])
        half = solve_triangular(L, _grouped(u, groups, replicas), lower=True)  # G N R
        weights = s[:, :, None] * solve_triangular(L, half, lower=True, trans=1)
        # log scale + ½ νᵀ(K⁻¹ + T)⁻¹ν = Σ (log scale + ½ u²) - ½ uᵀB⁻¹u, rows cancelling first
        rows = jnp.sum(messages.log_scale + 0.5 * jnp.sum(u**2, axis=1))
        data = rows - 0.5 * jnp.sum(half**2)
        volume = -0.5 * replicas * jnp.sum(log_determinant(L))
        root = root * s[:, None, :]
        parts = _Parts(K, u, tau, jnp.where(certain, 0.0, messages.shift), rows)
        left = _grouped(parts.left, groups, replicas)
        lowered = jnp.minimum(tau, 0.0).T if self.mixed else None
        weights, raised, gained = _with_others(K, root, weights, left, lowered)
        belief = FunctionValuesBelief(
            weights=jnp.moveaxis(weights, 0, 1).reshape(K.shape[0], -1),
            root=root,
            precision=jnp.maximum(tau, 0.0).T,
            raised=raised,
            covariance=K,
            log_normaliser=data + volume + gained,
        )
        value = with_slopes(belief.log_normaliser, _slopes(belief, parts, certain), parts)
        return eqx.tree_at(lambda b: b.log_normaliser, belief, value)


class _Parts(eqx.Module):
    r"""Arguments of a log-partition, where sites are certain in terms of $u = \nu / \sqrt\tau$.

    In these its slopes keep their digits at the smallest noise: with weights
    $w = \nu - \tau m$ what is left of the site and the mean is known without a difference.
    """

    covariance: Float[Array, "N N"]
    u: Float[Array, "N P"]
    precision: Float[Array, "N G"]
    left: Float[Array, "N P"]  # shifts of sites that are not certain
    rows: Scalar  # log scales of the sites, and half the squares of u that they cancel


def _slopes(belief: FunctionValuesBelief, parts: _Parts, certain: Bool[Array, "N G"]) -> _Parts:
    r"""The derivatives of a log-partition: moments of the belief.

    In the prior covariance they are $\tfrac12 (\mathbf w \mathbf w^\top -
    \mathbf R^\top \mathbf R + \mathbf S^\top \mathbf S)$.
    """
    w, (groups, size) = belief.weights, belief.precision.shape
    replicas = w.shape[1] // groups
    explained = jnp.sum(jax.vmap(gram_lower)(belief.root), axis=0)
    if belief.raised is not None:
        explained = explained - jnp.sum(jnp.swapaxes(belief.raised, 1, 2) @ belief.raised, axis=0)
    prior = 0.5 * (w @ w.T - replicas * explained)
    # what a row sees does not depend on how it is projected
    mean, var = belief.marginal(Projection(None, jnp.zeros(size, w.dtype), jnp.zeros_like(w)))
    certain = jnp.repeat(certain, replicas, axis=1)
    safe = jnp.where(certain, jnp.repeat(parts.precision, replicas, axis=1), 1.0)
    root, step = jnp.sqrt(safe), w / safe
    by_site = jnp.where(certain, (parts.u / root - step) * step, -(mean**2)) - var
    by_tau = 0.5 * jnp.sum(by_site.reshape(size, groups, replicas), axis=2)
    by_u = jnp.where(certain, -w / root, 0.0)
    return _Parts(prior, by_u, by_tau, mean, jnp.ones((), w.dtype))


def _grouped(x: Float[Array, "N P"], groups: int, replicas: int) -> Float[Array, "G N R"]:
    return jnp.moveaxis(x.reshape(-1, groups, replicas), 0, 1)


def _with_others(
    K: Float[Array, "N N"],
    root: Float[Array, "G N N"],
    weights: Float[Array, "G N R"],
    shift: Float[Array, "G N R"],
    tau: Float[Array, "G N"] | None,
) -> tuple[Float[Array, "G N R"], Float[Array, "G N N"] | None, Scalar]:
    r"""A belief times further sites, of precision at or below zero.

    With $\mathbf W = |\mathbf T|^{1/2}$ and the covariance $\boldsymbol\Sigma$ before,
    $\mathbf C = \mathbf I - \mathbf W \boldsymbol\Sigma \mathbf W$ is positive definite just
    where the product is a proper Gaussian.

    Args:
        K: prior covariance.
        root: R of the belief before.
        weights: its weights.
        shift: shifts of the sites.
        tau: their precisions; None where all are zero.

    Returns:
        Weights and the factor S of the belief after, and what its log-partition gains.
    """
    mean = K @ weights
    if tau is None:
        slope, half = shift, root @ (K @ shift)
        spread = jnp.sum(shift * (K @ shift)) - jnp.sum(half**2)
        moved = slope - jnp.swapaxes(root, -1, -2) @ half
        return weights + moved, None, jnp.sum(shift * mean) + 0.5 * spread
    eye = jnp.eye(K.shape[0], dtype=K.dtype)
    w = safe_sqrt(-tau)
    left = eye - jnp.swapaxes(root, -1, -2) @ (root @ K)  # I - RᵀRK
    cov = K @ left
    L, inverse = jax.vmap(cholesky_and_inverse)(eye - w[:, :, None] * cov * w[:, None, :])
    # S = L⁻¹ W (I - K RᵀR)
    raised = inverse @ (w[:, :, None] * jnp.swapaxes(left, -1, -2))
    # the exponent νᵀz - ½ zᵀTz about the mean: its value, and its slope
    slope = shift - tau[:, :, None] * mean
    pushed = raised @ (K @ slope)
    spread = jnp.sum(slope * (cov @ slope)) + jnp.sum(pushed**2)
    at_mean = jnp.sum((shift - 0.5 * tau[:, :, None] * mean) * mean)
    gained = at_mean + 0.5 * spread - 0.5 * shift.shape[-1] * jnp.sum(log_determinant(L))
    moved = left @ slope + jnp.swapaxes(raised, -1, -2) @ pushed
    return weights + moved, raised, gained


class Identity(AbstractProjectedView):
    """Row n sees the n-th element of a `FunctionValues` variable, without residual.

    Attributes:
        mean: prior mean of the function, from inputs to one column per output.
    """

    mean: Callable[[Float[Array, "N D"]], Float[Array, "N P"]]

    def project(self, rows: Rows) -> Projection:
        residual = jnp.zeros(rows.x.shape[0], rows.x.dtype)
        return Projection(None, residual, observed_mean(self.mean, rows))

    def gaussian_messages(
        self,
        variable: FunctionValues,
        rows: Rows,
        noise_variance: Callable[..., Array],
        power: Power,
        chunk: int,
        volume: float | None = None,
    ) -> Messages:
        # there is no residual, so that its volume is nothing
        return projected_gaussian_messages(self, variable, rows, noise_variance, power, chunk)
