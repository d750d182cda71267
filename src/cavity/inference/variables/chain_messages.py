r"""Chains in natural form: Gaussians over states in time with a block-tridiagonal precision.

$$q(\mathbf x) \propto \exp\Big(\sum_t \mathbf h_t^\top \mathbf x_t - \tfrac12 \mathbf x_t^\top
\mathbf P_t \mathbf x_t - \mathbf x_{t-1}^\top \mathbf C_t \mathbf x_t\Big)$$

Rows are the states of all series, one series after another; $\mathbf C_t$ is zero where row t
starts a series. Forward messages eliminate one state after another, backward messages bring back
what later states say, so that marginals of states and of neighbours are exact, at a cost linear in
their number. From the marginals the natural parameters and the entropy are sums over neighbours.

References:
    Bui (2017), S40 with its erratum E12: messages absorb the whole chain, neighbouring terms alone
    do not give marginals.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractMessages, AbstractVariable
from cavity.inference.variables.chain import ChainBelief
from cavity.numerics.linalg import cholesky_and_inverse, log_determinant, with_slopes
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar


class ChainMessages(AbstractMessages):
    """A product of Gaussian terms of single states and of neighbours.

    Attributes:
        shift: h.
        precision: P, the diagonal blocks.
        coupling: C, the blocks between row t - 1 and row t; that of the first row has no meaning.
        log_scale: log of a factor, in nats.
    """

    shift: Float[Array, "T D"]
    precision: Float[Array, "T D D"]
    coupling: Float[Array, "T D D"]
    log_scale: Scalar


class Chain(AbstractVariable):
    r"""States whose rows send messages.

    A row that goes on from no other has the prior $\mathcal N(\mathbf m_0, \operatorname{diag}
    \mathbf v_0)$; all others have none, and the log normaliser is an integral over them as they
    are, with its powers of $2 \pi$: the terms of transitions are densities of them.

    Attributes:
        initial_mean: $\mathbf m_0$.
        initial_variance: $\mathbf v_0$.
        linked: 1 where a row goes on from the row before.

    References:
        Bui (2017), S41 with erratum E18.
    """

    chained: ClassVar[bool] = True

    initial_mean: Float[Array, " D"]
    initial_variance: Float[Array, " D"]
    linked: Float[Array, " T"]

    def belief(self, messages: ChainMessages) -> ChainBelief:
        m, v, first = self.initial_mean, self.initial_variance, 1.0 - self.linked
        prior = ChainMessages(
            first[:, None] * (m / v),
            first[:, None, None] * jnp.diag(1.0 / v),
            jnp.zeros_like(messages.coupling),
            -0.5 * jnp.sum(first) * jnp.sum(LOG_2PI + jnp.log(v) + m**2 / v),
        )
        q = chain_marginals(jax.tree.map(jnp.add, prior, messages))
        return ChainBelief(q.mean, q.cov, q.cross, q.log_partition)


class ChainMarginals(NamedTuple):
    """Marginals of a chain.

    Attributes:
        mean: means of the states.
        cov: their covariances.
        cross: covariances of x_{t-1} (rows) with x_t; zero where they are not coupled.
        log_partition: log of the integral of the product of all terms, in nats.
    """

    mean: Float[Array, "T D"]
    cov: Float[Array, "T D D"]
    cross: Float[Array, "T D D"]
    log_partition: Scalar


def chain_marginals(chain: ChainMessages) -> ChainMarginals:
    r"""Marginals and log-partition of a chain, by forward and backward messages.

    Given all later states, $\mathbf x_t \sim \mathcal N(\mathbf J_t^{-1} (\mathbf j_t -
    \mathbf C_{t+1} \mathbf x_{t+1}), \mathbf J_t^{-1})$. The derivatives of the log-partition are
    moments. Everything is NaN where the precision is not positive definite.
    """
    h, P, C = chain.shift, chain.precision, chain.coupling
    C = C.at[0].set(0.0)
    T, size = h.shape

    def eliminate(
        before: tuple[Array, Array], row: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        (root, k), (shift, precision, coupling) = before, row
        # J_t = P_t - CᵀJ⁻¹C, j_t = h_t - CᵀJ⁻¹j, with J⁻¹ = RᵀR and k = R j of the row before
        across = root @ coupling
        L, root = cholesky_and_inverse(precision - across.T @ across)
        k = root @ (shift - across.T @ k)
        return (root, k), (root, k, log_determinant(L))

    nothing = jnp.zeros((size, size), h.dtype), jnp.zeros(size, h.dtype)
    _, (root, k, volumes) = jax.lax.scan(eliminate, nothing, (h, P, C))
    value = 0.5 * (jnp.sum(k**2) - jnp.sum(volumes) + T * size * LOG_2PI)

    within = jnp.swapaxes(root, 1, 2) @ root
    alone = jnp.einsum("tij,ti->tj", root, k)
    gain = -within @ jnp.concatenate([C[1:], jnp.zeros_like(C[:1])])

    def restore(
        after: tuple[Array, Array], row: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        (mean, cov), (base, spread, gain) = after, row
        cross = gain @ cov
        cov = spread + gain @ cov @ gain.T
        state = base + gain @ mean, 0.5 * (cov + cov.T)
        return state, (*state, cross)

    rows = (alone, within, gain)
    last = jnp.zeros_like(alone[0]), jnp.zeros_like(within[0])
    _, (mean, cov, cross) = jax.lax.scan(restore, last, rows, reverse=True)
    cross = jnp.roll(cross, 1, axis=0)
    slopes = ChainMessages(
        mean,
        -0.5 * (cov + _outer(mean, mean)),
        -(cross + _outer(jnp.roll(mean, 1, axis=0), mean)).at[0].set(0.0),
        jnp.ones_like(chain.log_scale),
    )
    total = with_slopes(value + chain.log_scale, slopes, chain)
    return ChainMarginals(mean, cov, cross, total)


def chain_from_moments(
    mean: Float[Array, "T D"],
    cov: Float[Array, "T D D"],
    cross: Float[Array, "T D D"],
    link: Float[Array, " T"],
) -> ChainMessages:
    r"""The chain with given moments of states and neighbours, by terms of neighbours alone.

    It is $\prod q(\mathbf x_t \mid \mathbf x_{t-1})$ with the conditional means $\mathbf F_t
    \mathbf x_{t-1} + \mathbf d_t$ and covariances $\boldsymbol\Sigma_t$; its log scale makes it a
    density.

    Args:
        mean: means of the states.
        cov: their covariances.
        cross: covariances of x_{t-1} (rows) with x_t.
        link: 1 where row t continues the series of row t - 1, 0 where it starts one.
    """
    slope, spread = _conditionals(cov, cross, link)
    L, root = jax.vmap(cholesky_and_inverse)(spread)
    offset = mean - jnp.einsum("tij,tj->ti", slope, jnp.roll(mean, 1, axis=0))
    inverse = jnp.swapaxes(root, 1, 2) @ root
    scaled = inverse @ slope
    shift = jnp.einsum("tij,tj->ti", inverse, offset)
    back = jnp.roll(jnp.swapaxes(slope, 1, 2) @ scaled, -1, axis=0)
    pulled = jnp.roll(jnp.einsum("tij,ti->tj", scaled, offset), -1, axis=0)
    quadratic = jnp.sum(jnp.einsum("tij,tj->ti", root, offset) ** 2)
    log_scale = -0.5 * (quadratic + jnp.sum(log_determinant(L)) + mean.size * LOG_2PI)
    return ChainMessages(shift - pulled, inverse + back, -jnp.swapaxes(scaled, 1, 2), log_scale)


def chain_entropy(
    cov: Float[Array, "T D D"], cross: Float[Array, "T D D"], link: Float[Array, " T"]
) -> Float[Array, " T"]:
    """The entropy of a chain in nats, one term per row: that of x_t given x_{t-1}.

    Args:
        cov: covariances of the states.
        cross: covariances of x_{t-1} (rows) with x_t.
        link: 1 where row t continues the series of row t - 1, 0 where it starts one.

    References:
        Bui (2017), S40 and identity 32.
    """
    _, spread = _conditionals(cov, cross, link)
    L, _ = jax.vmap(cholesky_and_inverse)(spread)
    return 0.5 * (log_determinant(L) + cov.shape[-1] * (1.0 + LOG_2PI))


def _conditionals(
    cov: Float[Array, "T D D"], cross: Float[Array, "T D D"], link: Float[Array, " T"]
) -> tuple[Float[Array, "T D D"], Float[Array, "T D D"]]:
    r"""Slopes F and covariances of every state given the one before."""
    _, root = jax.vmap(cholesky_and_inverse)(jnp.roll(cov, 1, axis=0))
    half = root @ (link[:, None, None] * cross).at[0].set(0.0)
    spread = cov - jnp.swapaxes(half, 1, 2) @ half
    return jnp.swapaxes(half, 1, 2) @ root, spread


def _outer(a: Float[Array, "T D"], b: Float[Array, "T D"]) -> Float[Array, "T D D"]:
    return a[:, :, None] * b[:, None, :]
