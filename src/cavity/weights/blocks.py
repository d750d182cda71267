r"""Scale mixtures of several weights that share one scale: blocks of weights.

The weights of a block are independent given its variance s, and large or small together,
$p(\mathbf w) = \int h(s)\, \mathcal N(\mathbf w; \mathbf 0, s \mathbf I)\, ds$. At power 1 all
that inference needs is $M_1(\mathbf m, \mathbf V) = \int h(s)\, \mathcal N(\mathbf 0; \mathbf m,
\mathbf V + s \mathbf I)\, ds$ with its derivatives. Blocks may have fewer weights than their
arrays have places: what stands in empty places does not count.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from cavity.numerics.chunking import map_over_entries
from cavity.numerics.linalg import cholesky_and_inverse, log_determinant
from cavity.numerics.quadrature import Tilted
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float
from cavity.weights.base import AbstractScaleMixture, Components

Result = TypeVar("Result")


class Cavities(NamedTuple):
    """Gaussians of the weights of blocks.

    Attributes:
        cov: covariances.
        mean: means.
        present: 1 where a place has a weight, 0 elsewhere.
    """

    cov: Float[Array, "B P W W"]
    mean: Float[Array, "B P W"]
    present: Float[Array, "B W"]


class _Nodes(NamedTuple):
    r"""The product of cavities and priors, one entry for each variance of a prior.

    Attributes:
        s: the variances.
        log_share: logs of their shares in the product.
        log_mean: $\log M_1$.
        root: R with $\mathbf R^\top \mathbf R = (\mathbf V + s \mathbf I)^{-1}$.
    """

    s: Float[Array, "S B P"]
    log_share: Float[Array, "S B P"]
    log_mean: Float[Array, "B P"]
    root: Float[Array, "S B P W W"]


def block_log_mean(prior: AbstractScaleMixture, cavities: Cavities) -> Float[Array, "B P"]:
    r"""$\log M_1$ of each block.

    Args:
        prior: the prior, with parameters of the form (B, 1).
        cavities: the Gaussians that it is multiplied by.
    """
    return _block_by_block(lambda p, c: _nodes(p, c).log_mean, prior, cavities)


def block_tilted(prior: AbstractScaleMixture, cavities: Cavities) -> Tilted:
    r"""$\log M_1$ of each block, its slope (B, P, W) and curvature (B, P, W, W) in the mean.

    Args:
        prior: the prior, with parameters of the form (B, 1).
        cavities: the Gaussians that it is multiplied by.

    References:
        Jylanki (2013), S93 and S103, with vectors in the place of numbers.
    """

    def of_some(prior: AbstractScaleMixture, cavities: Cavities) -> Tilted:
        nodes, here = _nodes(prior, cavities), cavities.present[:, None]
        precision = jnp.einsum("sbpvw,sbpvu->sbpwu", nodes.root, nodes.root)
        slopes = -here * jnp.einsum("sbpwu,bpu->sbpw", precision, here * cavities.mean)
        share = jnp.exp(nodes.log_share)
        slope = jnp.einsum("sbp,sbpw->bpw", share, slopes)
        apart = slopes - slope
        spread = jnp.einsum("sbp,sbpw,sbpu->bpwu", share, apart, apart)
        inside = here[..., :, None] * here[..., None, :]
        curvature = spread - inside * jnp.einsum("sbp,sbpwu->bpwu", share, precision)
        return Tilted(nodes.log_mean, slope, curvature)

    return _block_by_block(of_some, prior, cavities)


def block_components(prior: AbstractScaleMixture, cavities: Cavities) -> Components:
    r"""The product of prior and cavities, normalised, as mixtures of Gaussians of each weight.

    Args:
        prior: the prior, with parameters of the form (B, 1).
        cavities: the Gaussians that it is multiplied by.

    Returns:
        Shares (S, B, P, W), which are the same throughout a block, means and variances.
    """
    nodes, here = _nodes(prior, cavities), cavities.present[:, None]
    precision = jnp.einsum("sbpvw,sbpvu->sbpwu", nodes.root, nodes.root)
    s = nodes.s[..., None]
    mean = s * jnp.einsum("sbpwu,bpu->sbpw", precision, here * cavities.mean)
    var = s * jnp.einsum("sbpwu,bpuw->sbpw", precision, _within(cavities))
    return Components(jnp.broadcast_to(nodes.log_share[..., None], mean.shape), mean, var)


def _nodes(prior: AbstractScaleMixture, cavities: Cavities) -> _Nodes:
    log_share, s = prior.scales()
    mean, present = cavities.mean, cavities.present[:, None]
    s = jnp.broadcast_to(s, (s.shape[0], *mean.shape[:2]))
    own = s[..., None, None] * present[..., None] * jnp.eye(mean.shape[2], dtype=mean.dtype)
    total = _within(cavities) + own
    flat = jax.vmap(cholesky_and_inverse)(total.reshape(-1, *total.shape[-2:]))
    L, root = (x.reshape(total.shape) for x in flat)
    pushed = jnp.einsum("sbpwu,bpu->sbpw", root, present * mean)
    volume = LOG_2PI * jnp.sum(present, axis=2) + log_determinant(L)
    each = log_share - 0.5 * (volume + jnp.sum(pushed**2, axis=-1))
    log_mean = jax.nn.logsumexp(each, axis=0)
    return _Nodes(s, each - log_mean, log_mean, root)


def _within(cavities: Cavities) -> Float[Array, "B P W W"]:
    """The covariances with a one in empty places."""
    present = cavities.present[:, None]
    inside = present[..., :, None] * present[..., None, :]
    empty = (1.0 - present)[..., None] * jnp.eye(present.shape[-1], dtype=present.dtype)
    return jnp.where(inside > 0.0, cavities.cov, 0.0) + empty


def _block_by_block(
    function: Callable[[AbstractScaleMixture, Cavities], Result],
    prior: AbstractScaleMixture,
    cavities: Cavities,
) -> Result:
    """A function of priors and cavities, a few blocks at a time."""
    return map_over_entries(lambda some: function(some[1], some[0]), (cavities, prior))
