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


class BlockMoments(NamedTuple):
    r"""What the products of priors and cavities are.

    Attributes:
        log_integral: logs of their integrals.
        mean: means.
        cov: covariances.
    """

    log_integral: Float[Array, "B P"]
    mean: Float[Array, "B P W"]
    cov: Float[Array, "B P W W"]


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


def block_tilted(prior: AbstractScaleMixture, cavities: Cavities) -> BlockMoments:
    """The integral of prior times cavity, mean and covariance of each block.

    Args:
        prior: the prior, with parameters of the form (B, 1).
        cavities: the Gaussians that it is multiplied by.

    References:
        Jylanki (2013), S93 and S103, with vectors in the place of numbers.
    """

    def of_some(prior: AbstractScaleMixture, cavities: Cavities) -> BlockMoments:
        nodes = _nodes(prior, cavities)
        share = jnp.exp(nodes.log_share)
        mean = jnp.einsum("sbp,sbpw->bpw", share, nodes.mean)
        apart = nodes.mean - mean
        within = jnp.einsum("sbp,sbpvw,sbpvu->bpwu", share, nodes.root, nodes.root)
        between = jnp.einsum("sbp,sbpw,sbpu->bpwu", share, apart, apart)
        return BlockMoments(nodes.log_integral, mean, within + between)

    return _block_by_block(of_some, prior, cavities)


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
    log_share, s = prior.scales()
    h, present = cavities.shift, cavities.present[:, None]
    # rounding may leave a direction of which nothing is known below zero
    s = jnp.minimum(s, _WIDEST * prior.starting_variance())
    s = jnp.broadcast_to(s, (s.shape[0], *h.shape[:2]))[..., None]
    own = (present / s)[..., None] * jnp.eye(h.shape[2], dtype=h.dtype)
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


def _block_by_block(
    function: Callable[[AbstractScaleMixture, Cavities], Result],
    prior: AbstractScaleMixture,
    cavities: Cavities,
) -> Result:
    """A function of priors and cavities, a few blocks at a time."""
    return map_over_entries(lambda some: function(some[1], some[0]), (cavities, prior))
