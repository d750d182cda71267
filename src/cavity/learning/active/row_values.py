r"""Expected information of one more output about the function at its row.

With $G(y) = \partial \log p(y) / \partial m$, the slope of the log predictive density in the
mean of f, and $v$ the variance of f, the mean of f given y is $m + v G(y)$, so by the law of total
variance

$$\mathbb E_y \operatorname{var}(f \mid y) = v - v J v, \qquad J = \mathbb E_y[G(y)^2].$$

J is the Fisher information of the predictive distribution about its mean. The site that takes
the variance there has precision $J / (1 - J v)$: the site that the row is expected to have. With
Gaussian noise $J = 1 / (\sigma^2 + v)$, and the precision is $1 / \sigma^2$. With several latent
functions G is a vector, and J a matrix.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import number_of_classes
from cavity.likelihoods.predictive.base import Side
from cavity.likelihoods.predictive.tabulated import output_shares
from cavity.likelihoods.support import Support
from cavity.numerics.jit import compiled
from cavity.numerics.qmc import normal_points
from cavity.numerics.types import Array, Float

# Points that stand for the functions of all classes at a row.
POINTS = 512
# The share of the distribution at a row from which an output counts.
LEAST = 1e-20


class RowValues(NamedTuple):
    """Expected information of the output of each row.

    Attributes:
        information: mutual information of y and f, nats, (n,) or (n, P).
        fisher: J, in inverse squared units of f, (L, L, n) or (L, L, n, P).
    """

    information: Float[Array, "..."]
    fisher: Float[Array, "L L ..."]


@compiled
def row_values(
    likelihood: AbstractLikelihood, mean: Array, spread: Array, side: Side
) -> RowValues:
    r"""The mutual information of y and f, and the Fisher information of y about the mean of f.

    Args:
        likelihood: the density of y given f.
        mean: means of f, one for each output; of L latent functions (L, n).
        spread: variances of f; of functions of classes their covariances, (L, L, n).
        side: side data of the rows, in shapes that broadcast against the outputs.

    References:
        Bui (2017), S52 (eqs 3.96 to 3.98); Houlsby et al. (2011), BALD.
    """
    noise = likelihood.gaussian_noise
    if noise is not None:
        variance = noise.noise_variance(**side)
        total = jnp.broadcast_to(variance + spread, spread.shape)
        return RowValues(0.5 * jnp.log1p(spread / variance), (1.0 / total)[None, None])
    if likelihood.latents > 1 and likelihood.support is Support.LABELS:
        return _class_values(likelihood, mean, spread)
    return _quadrature_values(likelihood, mean, spread, side)


def _quadrature_values(
    likelihood: AbstractLikelihood, mean: Array, var: Array, side: Side
) -> RowValues:
    several = likelihood.latents > 1
    like = mean[0] if several else mean
    grid, share = output_shares(
        lambda y: likelihood.log_power_mean(mean, var, y, 1.0, side), likelihood, like
    )
    ones, count = jnp.ones_like(like), likelihood.latents
    along = [jnp.zeros_like(mean).at[i].set(1.0) for i in range(count)] if several else [ones]

    def told(total: RowValues, y: Array, weight: Array) -> RowValues:
        def scaled(a: Array, mean: Array) -> Array:
            return a * likelihood.log_power_mean(mean, var, y, a, side)

        # KL(p(f|y) || p(f)) = E[log p(y|f) | y] - log p(y), and d/da a log M_a is the first at 1
        log_p, slope = jax.linearize(scaled, ones, mean)
        expected = slope(ones, jnp.zeros_like(mean))
        G = jnp.stack([slope(jnp.zeros_like(ones), each) for each in along])
        more = RowValues(weight * (expected - log_p), weight * G[:, None] * G[None])
        # outputs without weight may have no finite values
        none = weight <= LEAST
        return jax.tree.map(lambda t, x: t + jnp.where(none, 0.0, x), total, more)

    def add(total: RowValues, entry: tuple[Array, Array]) -> tuple[RowValues, None]:
        # most counts of a table have no weight at any row
        some = jnp.any(entry[1] > LEAST)
        return jax.lax.cond(some, lambda: told(total, *entry), lambda: total), None

    zero = RowValues(jnp.zeros_like(like), jnp.zeros((count, count, *like.shape), like.dtype))
    found, _ = jax.lax.scan(add, zero, (grid, share))
    return RowValues(jnp.maximum(found.information, 0.0), found.fisher)


def _class_values(
    likelihood: AbstractLikelihood, mean: Float[Array, "C n"], spread: Array
) -> RowValues:
    """Averages over fixed points for the functions of all classes, the same for all labels."""
    count = number_of_classes(likelihood)
    labels = jnp.arange(count, dtype=mean.dtype)
    points = jnp.asarray(normal_points(count, POINTS), mean.dtype)

    def of_row(row: tuple[Array, Array]) -> tuple[Array, Array]:
        m, V = row
        values, vectors = jnp.linalg.eigh(V)
        away = points @ (vectors * jnp.sqrt(jnp.maximum(values, 0.0))).T

        def log_p(m: Array) -> Array:
            f = (m + away).T[:, :, None]
            each = likelihood.log_prob(f, jnp.broadcast_to(labels, (POINTS, count)))
            return each - logsumexp(each, axis=1, keepdims=True)

        each = log_p(m)
        mixed = logsumexp(each, axis=0) - jnp.log(POINTS)
        told = jnp.mean(jnp.sum(jnp.exp(each) * each, axis=1))
        p = jnp.exp(mixed)
        # v G = E[f|y] - m, by which J follows without a slope of p(y|f)
        moved = (jnp.exp(each).T @ away) / (POINTS * p[:, None])
        G = moved @ jnp.linalg.pinv(V, rtol=1e-6, hermitian=True)
        return told - jnp.sum(p * mixed), jnp.einsum("y,ya,yb->ab", p, G, G)

    information, fisher = jax.lax.map(of_row, (mean.T, jnp.moveaxis(spread, 2, 0)))
    return RowValues(jnp.maximum(information, 0.0), jnp.moveaxis(fisher, 0, 2))
