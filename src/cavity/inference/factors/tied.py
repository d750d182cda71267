r"""Tied sites: one Gaussian site, to the power of the number of rows, stands for all rows.

$$q(\mathbf v) \propto p(\mathbf v)\, t(\mathbf v)^N, \qquad
-\log Z = -\big[\Phi(q) - \Phi(p)\big] - \tfrac Na \big[\Phi(q / t^a) - \Phi(q)\big]
- \sum_n \log M_a(f_n; q / t^a)$$

The cavity is the same for all rows, so that there is no saddle: the energy is minimised over q
directly, with minibatches if need be. At power 0 it is the uncollapsed variational bound.
With $\epsilon = a / N$, $q = \mathcal N(\mathbf m, \mathbf S \mathbf S^\top)$ and
$\mathbf K = \mathbf I + \epsilon (\mathbf S \mathbf S^\top - \mathbf I)$, the cavity mean is
$\mathbf m_c = (1 - \epsilon) \mathbf K^{-1} \mathbf m$ and the first two terms add up to

$$-\tfrac12 \mathbf m^\top \mathbf m_c + \log |\mathbf S| - \tfrac N{2a} \log |\mathbf K|,$$

so that nothing cancels at small powers and no factor is inverted but that of $\mathbf K$, which
is well conditioned however narrow the belief is.

References:
    Bui (2017), S14 and S30; Hernandez-Lobato et al. (2016).
"""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from cavity.inference.graph.marginals import Projection
from cavity.inference.variables.inducing import InducingBelief
from cavity.numerics.linalg import (
    cholesky,
    cholesky_and_inverse,
    gram_lower,
    log_determinant,
    lower_root,
    with_slopes,
)
from cavity.numerics.power_limits import Power, is_exactly, log1p_ratio
from cavity.numerics.types import Array, Float, Scalar

# The least share of its precision that a natural-gradient step may leave a direction.
LEAST_PRECISION = 1e-3


class TiedSite(eqx.Module):
    r"""A tied site, as the Gaussian that it makes of a standard normal prior, per output.

    Attributes:
        mean: $\mathbf m$.
        raw: the lower triangle of $\mathbf S$, its diagonal as logarithms.
        groups: sizes of groups of values that are independent of each other, whatever `raw` has
            between them; None for one group.
    """

    mean: Float[Array, "P M"]
    raw: Float[Array, "P M M"]
    groups: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @property
    def root(self) -> Float[Array, "P M M"]:
        """S, lower triangular with a positive diagonal."""
        below = self.raw
        if self.groups is not None:
            number = np.repeat(np.arange(len(self.groups)), self.groups)
            below = jnp.where(number[:, None] == number, below, 0.0)
        return lower_root(below, jnp.diagonal(self.raw, axis1=-2, axis2=-1))

    def belief(self) -> InducingBelief:
        """The belief itself; its terms of the energy come with the cavity."""
        zero = jnp.zeros((), self.mean.dtype)
        return InducingBelief(self.mean[:, None, :], jnp.swapaxes(self.root, -1, -2), zero)


def tied_site(mean: Float[Array, "P M"], cov: Float[Array, "P M M"]) -> TiedSite:
    """The tied site that makes this Gaussian."""
    return TiedSite(mean, raw_of(cholesky(cov)))


def raw_of(root: Float[Array, "... M M"]) -> Float[Array, "... M M"]:
    """A lower triangular root as `raw` has it, its diagonal as logarithms."""
    logarithms = jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1))
    return jnp.tril(root, -1) + logarithms[..., None] * jnp.eye(root.shape[-1])


class TiedCavity(eqx.Module):
    """The cavity that all rows share, and the energy's terms of the tied site."""

    mean: Float[Array, "P M"]
    root: Float[Array, "P M M"]  # the covariance is rootᵀ root
    log_scale: Scalar

    def marginal(self, projection: Projection) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Means and variances of the projected variable."""
        A = projection.loadings
        assert A is not None
        half = self.root @ A
        return (self.mean @ A).T, jnp.sum(half**2, axis=1).T


def tied_cavity(site: TiedSite, power: Power, total: Float[Array, " P"]) -> TiedCavity:
    """The cavity of a belief with one tied site.

    Args:
        site: the site.
        power: the power of all rows.
        total: the number of observed rows, per output.
    """

    def one(m: Array, S: Array, n: Array) -> tuple[Array, Array, Array]:
        # log_determinant takes a Cholesky factor, and gives twice the logarithm of its own
        if is_exactly(power, 0.0):
            # nothing is taken out; the terms are -KL(q || p)
            spread = 0.5 * (m @ m + jnp.sum(S**2) - m.size)
            return m, S.T, log_determinant(S) / 2.0 - spread
        share = power / n
        eye = jnp.eye(m.shape[0], dtype=m.dtype)
        excess = gram_lower(S) - eye
        L, R = cholesky_and_inverse(eye + share * excess)
        # (1 - ε)(I + ε(SSᵀ - I))⁻¹ m = m - ε S K⁻¹ Sᵀ m, by Woodbury's identity
        mean = m - share * (S @ (R.T @ (R @ (S.T @ m))))
        volume = 0.5 * _log_determinant_per_share(share, excess, L, R)
        return mean, R @ S.T, log_determinant(S) / 2.0 - 0.5 * m @ mean - volume

    mean, root, log_scale = jax.vmap(one)(site.mean, site.root, total)
    return TiedCavity(mean, root, jnp.sum(log_scale))


def _log_determinant_per_share(
    share: Scalar, A: Float[Array, "M M"], L: Float[Array, "M M"], R: Float[Array, "M M"]
) -> Scalar:
    r"""$\log |\mathbf I + \epsilon \mathbf A| / \epsilon$, accurate for every $\epsilon > 0$.

    The diagonal of the Cholesky factor is one plus something of the order of $\epsilon$, which is
    computed without the one. Derivatives are those of R's diagonal, and none are in $\epsilon$.

    Args:
        share: $\epsilon$.
        A: what is added to the identity.
        L: the lower Cholesky factor of $\mathbf I + \epsilon \mathbf A$.
        R: its inverse.
    """
    below = jnp.tril(L, -1)
    # (L_jj² - 1)/ε = A_jj - Σ_k L_jk²/ε
    pivots = jnp.diagonal(A) - jnp.sum(below * (below / share), axis=1)
    value = jnp.sum(log1p_ratio(share, pivots))
    # log|K|/ε = -(2/ε) Σ log R_jj
    inverse_pivots = jnp.diagonal(R)
    return with_slopes(value, -2.0 / (share * inverse_pivots), inverse_pivots)


def natural_step(site: TiedSite, slope: TiedSite, step: Power) -> TiedSite:
    r"""A natural-gradient step of a tied site, for the energy at any power.

    With $\mathbf P$ and $\mathbf h$ the precision and shift of q,
    $\mathbf P \leftarrow \mathbf P + 2 \rho\, \partial E / \partial \boldsymbol\Sigma$ and
    $\mathbf h \leftarrow \mathbf h - \rho (\partial E / \partial \mathbf m -
    2\, \partial E / \partial \boldsymbol\Sigma\, \mathbf m)$. With
    $\mathbf C = 2\, \mathbf S^\top \partial E / \partial \boldsymbol\Sigma\, \mathbf S$ the new
    covariance is $\mathbf S (\mathbf I + \rho \mathbf C)^{-1} \mathbf S^\top$, and the mean moves
    by $-\rho$ times this covariance times $\partial E / \partial \mathbf m$. A step that would
    leave a direction without precision is shortened.

    Args:
        site: the site.
        slope: derivatives of the energy in its mean and in the numbers of its root.
        step: $\rho$, in (0, 1].
    """

    def relative_change(S: Array, by_raw: Array) -> Array:
        by_root = jnp.tril(by_raw, -1) + jnp.diag(jnp.diagonal(by_raw) / jnp.diagonal(S))
        # C: the lower triangle of Sᵀ ∂E/∂S, mirrored
        lower = jnp.tril(S.T @ by_root)
        return lower + jnp.tril(lower, -1).T

    def moved(m: Array, S: Array, raw: Array, by_mean: Array, R: Array, rho: Array) -> tuple:
        root = S @ R
        mean = m - rho * (root @ (root.T @ by_mean))
        new = raw_of(root)
        ok = jnp.all(jnp.isfinite(new)) & jnp.all(jnp.isfinite(mean))
        return jnp.where(ok, mean, m), jnp.where(ok, new, raw)

    root = site.root
    change = jax.vmap(relative_change)(root, slope.raw)
    inverse_roots, lengths = _shortened_step(change, step)
    arguments = (site.mean, root, site.raw, slope.mean, inverse_roots, lengths)
    return TiedSite(*jax.vmap(moved)(*arguments), groups=site.groups)


def _shortened_step(
    change: Float[Array, "P M M"], step: Power
) -> tuple[Float[Array, "P M M"], Float[Array, " P"]]:
    r"""Lower roots of $(\mathbf I + \rho \mathbf C)^{-1}$, and $\rho$, per output.

    Eigenvalues cost more than a Cholesky factor, so they are computed only where the
    factorisation of a full step fails.
    """
    eye = jnp.eye(change.shape[-1], dtype=change.dtype)

    def inverse_root(C: Array, rho: Array) -> Array:
        # with axes reversed, the inverse of an upper factor is lower
        L = cholesky((eye + rho * C)[::-1, ::-1])
        return solve_triangular(L, eye, lower=True).T[::-1, ::-1]

    def shorter(roots: Array) -> tuple[Array, Array]:
        least = jnp.linalg.eigvalsh(change)[:, 0]
        whole = 1.0 + step * least > LEAST_PRECISION
        lengths = cast(Array, jnp.where(whole, step, -0.5 / least))
        return jax.vmap(inverse_root)(change, lengths), lengths

    lengths = jnp.full(change.shape[0], step, change.dtype)
    roots = jax.vmap(inverse_root)(change, lengths)
    # the diagonal of a root is that of the Cholesky factor, inverted
    largest = jnp.max(jnp.diagonal(roots, axis1=-2, axis2=-1) ** 2)
    whole = jnp.isfinite(largest) & (LEAST_PRECISION * largest < 1.0)
    return jax.lax.cond(whole, lambda roots: (roots, lengths), shorter, roots)
