r"""Scale mixtures of several weights that share one scale: blocks of weights.

The weights of a block are independent given its variance s, and large or small together,
$p(\mathbf w) = \int h(s)\, \mathcal N(\mathbf w; \mathbf 0, s \mathbf I)\, ds$. Times a Gaussian
$\exp(\mathbf h^\top \mathbf w - \tfrac12 \mathbf w^\top \mathbf A \mathbf w)$ this is a mixture
of Gaussians with covariances $(\mathbf A + \mathbf I / s)^{-1}$. Precisions are kept, not
covariances: data may know nothing of a direction, as of the sum of 0/1 columns of all categories,
and all digits of the others would be lost beside an infinite variance. Blocks may have fewer
weights than their arrays have places; what stands in empty places is multiplied by nothing.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from cavity.numerics.chunking import map_over_entries
from cavity.numerics.linalg import cholesky_and_inverse, log_determinant
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float
from cavity.weights.base import AbstractScaleMixture, Components

Result = TypeVar("Result")

# The widest variance, over that of the Gaussian that a search starts from.
_WIDEST = 1e8
# What rounding may take from the precision of a direction of which nothing is known, as a share of
# the trace.
_ROUNDING = 1e-14


class Cavities(NamedTuple):
    r"""Gaussians $\exp(\mathbf h^\top \mathbf w - \tfrac12 \mathbf w^\top \mathbf A \mathbf w)$.

    Attributes:
        precision: A.
        shift: h.
        present: 1 where a place has a weight, 0 elsewhere.
    """

    precision: Float[Array, "B P W W"]
    shift: Float[Array, "B P W"]
    present: Float[Array, "B W"]


class BlockMatch(NamedTuple):
    r"""The Gaussians that have the moments of products of priors and cavities.

    Attributes:
        log_integral: logs of the integrals of the products.
        shift: their shifts, less those of the cavities.
        precision: their precisions, less those of the cavities.
    """

    log_integral: Float[Array, "B P"]
    shift: Float[Array, "B P W"]
    precision: Float[Array, "B P W W"]


class _Nodes(NamedTuple):
    r"""The product of cavities and priors, one Gaussian for each variance of a prior.

    Attributes:
        log_share: logs of their shares.
        log_integral: log of the integral of all.
        mean: means.
        root: R with the covariance $\mathbf R^\top \mathbf R$.
    """

    log_share: Float[Array, "S B P"]
    log_integral: Float[Array, "B P"]
    mean: Float[Array, "S B P W"]
    root: Float[Array, "S B P W W"]


def block_log_integral(prior: AbstractScaleMixture, cavities: Cavities) -> Float[Array, "B P"]:
    """The log of the integral of prior times cavity, of each block.

    Args:
        prior: the prior, with parameters of the form (B, 1).
        cavities: the Gaussians that it is multiplied by.
    """
    return _block_by_block(lambda p, c: _nodes(p, c).log_integral, prior, cavities)


def log_partition(cavities: Cavities) -> Float[Array, "B P"]:
    """The log of the integral of each cavity; NaN where it has none."""
    flat = cavities.precision.reshape(-1, *cavities.precision.shape[-2:])
    L, root = (x.reshape(cavities.precision.shape) for x in jax.vmap(cholesky_and_inverse)(flat))
    pushed = jnp.einsum("bpwu,bpu->bpw", root, cavities.shift)
    volume = pushed.shape[-1] * LOG_2PI - log_determinant(L)
    return 0.5 * (jnp.sum(pushed**2, axis=-1) + volume)


def block_match(prior: AbstractScaleMixture, cavities: Cavities) -> BlockMatch:
    r"""Increments of each block's cavity that give the moments of prior times cavity.

    In the axes of $\mathbf A$, with eigenvalues $a_i$, the product is a mixture of independent
    Gaussians with precisions $a_i + t_k$, $t_k = 1 / s_k$. Beside the widest of them, $t_r$, the
    covariance of the mixture is $\mathbf D^{-1/2} (\mathbf I + \mathbf N) \mathbf D^{-1/2}$,
    $\mathbf D = \operatorname{diag}(a_i + t_r)$, with

    $$\mathbf N = \sum_k \pi_k \Big[ \operatorname{diag} \frac{t_r - t_k}{a_i + t_k}
    + \mathbf e_k \mathbf e_k^\top \Big]$$

    and $\mathbf e_k = \mathbf D^{1/2} (\mathbf m_k - \boldsymbol\mu)$, so that its precision less
    $\mathbf A$ is $t_r \mathbf I - \mathbf D^{1/2} (\mathbf I + \mathbf N)^{-1} \mathbf N
    \mathbf D^{1/2}$, in which no large numbers cancel.

    Args:
        prior: the prior, with parameters of the form (B, 1).
        cavities: the Gaussians that it is multiplied by. Directions of negative precision count as
            unknown.

    References:
        Jylanki (2013), S93 and S103, with vectors in the place of numbers.
    """
    return _block_by_block(_match, prior, cavities)


def _match(prior: AbstractScaleMixture, cavities: Cavities) -> BlockMatch:
    log_share, s = _scales(prior, cavities)
    axes, a, there = _axes(cavities)
    g = jnp.einsum("bpwi,bpw->bpi", axes, cavities.shift)
    t = there / s  # S B P W
    total = a + t
    each = jnp.sum(g**2 / total - jnp.log(total) - there * jnp.log(s), axis=-1)
    each = log_share + 0.5 * (each + jnp.sum((1.0 - there) * LOG_2PI, axis=-1))
    log_integral = jax.nn.logsumexp(each, axis=0)
    share = jnp.exp(each - log_integral)[..., None]
    lowest = jnp.min(t, axis=0)
    D, gap = a + lowest, (lowest - t) / total
    offset = gap * g / D  # of each mean from that of the widest
    moved = jnp.sum(share * offset, axis=0)
    e = jnp.sqrt(share * D) * (offset - moved)
    between, eye = jnp.einsum("sbpi,sbpj->bpij", e, e), jnp.eye(a.shape[-1], dtype=a.dtype)
    N = between + jnp.sum(share * gap, axis=0)[..., None] * eye
    # I + N as a sum of positive numbers
    whole = between + jnp.sum(share * D / total, axis=0)[..., None] * eye
    root = jax.vmap(jax.vmap(cholesky_and_inverse))(whole)[1]
    reduced = jnp.einsum("bpvi,bpvw,bpwj->bpij", root, root, N)
    reduced, unit = 0.5 * (reduced + jnp.swapaxes(reduced, 2, 3)), jnp.sqrt(D)
    own = lowest[..., None] * eye - unit[..., :, None] * reduced * unit[..., None, :]
    shift = jnp.einsum("bpij,bpj->bpi", own, g / D + moved) + a * moved - lowest * g / D
    precision = jnp.einsum("bpwi,bpij,bpuj->bpwu", axes, own, axes)
    return BlockMatch(log_integral, jnp.einsum("bpwi,bpi->bpw", axes, shift), precision)


def _axes(cavities: Cavities) -> tuple[Array, Array, Array]:
    """Axes of the cavities' precisions, precisions along them, and 1 where there are weights."""
    A, present = cavities.precision, cavities.present[:, None]
    own = jnp.diagonal(A, axis1=-2, axis2=-1)
    # the axis of an empty place is its own, and the last
    last = (1.0 - present) * (2.0 * jnp.sum(jnp.abs(own), axis=-1, keepdims=True) + 1.0)
    values, axes = jnp.linalg.eigh(A + last[..., None] * jnp.eye(A.shape[-1], dtype=A.dtype))
    there = jnp.round(jnp.einsum("bpw,bpwi->bpi", jnp.broadcast_to(present, own.shape), axes**2))
    alone = jnp.einsum("bpw,bpwi->bpi", own, axes**2)
    return axes, jnp.where(there > 0.0, jnp.maximum(values, 0.0), alone), there


def block_components(prior: AbstractScaleMixture, cavities: Cavities) -> Components:
    """The product of prior and cavities, normalised, as mixtures of Gaussians of each weight.

    Args:
        prior: the prior, with parameters of the form (B, 1).
        cavities: the Gaussians that it is multiplied by.

    Returns:
        Shares (S, B, P, W), which are the same throughout a block, means and variances.
    """
    nodes = _nodes(prior, cavities)
    share = jnp.broadcast_to(nodes.log_share[..., None], nodes.mean.shape)
    return Components(share, nodes.mean, jnp.sum(nodes.root**2, axis=-2))


def _nodes(prior: AbstractScaleMixture, cavities: Cavities) -> _Nodes:
    log_share, s = _scales(prior, cavities)
    h, present = cavities.shift, cavities.present[:, None]
    # rounding may leave a direction of which nothing is known below zero
    known = present * jnp.diagonal(cavities.precision, axis1=-2, axis2=-1)
    lost = _ROUNDING * jax.lax.stop_gradient(jnp.sum(known, axis=-1, keepdims=True))
    own = present * jnp.maximum(1.0 / s, lost)
    own = own[..., None] * jnp.eye(h.shape[2], dtype=h.dtype)
    total = cavities.precision + own
    flat = jax.vmap(cholesky_and_inverse)(total.reshape(-1, *total.shape[-2:]))
    L, root = (x.reshape(total.shape) for x in flat)
    pushed = jnp.einsum("sbpwu,bpu->sbpw", root, h)
    volume = h.shape[2] * LOG_2PI - log_determinant(L)
    volume = volume - jnp.sum(present * (LOG_2PI + jnp.log(s)), axis=-1)
    each = log_share + 0.5 * (jnp.sum(pushed**2, axis=-1) + volume)
    log_integral = jax.nn.logsumexp(each, axis=0)
    mean = jnp.einsum("sbpwu,sbpw->sbpu", root, pushed)
    return _Nodes(each - log_integral, log_integral, mean, root)


def _scales(
    prior: AbstractScaleMixture, cavities: Cavities
) -> tuple[Float[Array, "S ..."], Float[Array, "S B P 1"]]:
    """Logs of the shares, and variances, of the Gaussians of the prior."""
    log_share, s = prior.scales()
    s = jnp.minimum(s, _WIDEST * prior.starting_variance())
    return log_share, jnp.broadcast_to(s, (s.shape[0], *cavities.shift.shape[:2]))[..., None]


def _block_by_block(
    function: Callable[[AbstractScaleMixture, Cavities], Result],
    prior: AbstractScaleMixture,
    cavities: Cavities,
) -> Result:
    """A function of priors and cavities, a few blocks at a time."""
    return map_over_entries(lambda some: function(some[1], some[0]), (cavities, prior))
