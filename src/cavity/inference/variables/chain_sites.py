r"""A chain of states by its natural parameters, which natural-gradient steps move.

For expected terms $U$ of a model, as a function of the moments of neighbouring pairs, the bound
$U + \mathbb H$ is largest where the natural parameters of the chain are the slopes of U in its raw
moments: a full natural-gradient step goes there in one. It is what matching a site is for other
factors, at power 0.

References:
    Bui (2017), S35 and S40; Khan and Rue (2023).
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.variables.chain import ChainBelief, ChainMoments, Links
from cavity.inference.variables.chain_messages import (
    ChainMessages,
    chain_entropy,
    chain_from_moments,
    chain_marginals,
)
from cavity.numerics.linalg import cholesky_and_inverse
from cavity.numerics.types import Array, Float


class ChainSites(eqx.Module):
    """A chain by its natural parameters.

    Attributes:
        shift: of every state.
        precision: diagonal blocks of the precision; the identity for padding.
        coupling: blocks between the state of the row before and that of the row; None for states
            that are independent of each other.
    """

    shift: Float[Array, "T D"]
    precision: Float[Array, "T D D"]
    coupling: Float[Array, "T D D"] | None

    def belief(self, links: Links) -> ChainBelief:
        """The chain; its log normaliser is its entropy."""
        zero = jnp.zeros((), self.shift.dtype)
        coupling = jnp.zeros_like(self.precision) if self.coupling is None else self.coupling
        q = chain_marginals(ChainMessages(self.shift, self.precision, coupling, zero))
        each = chain_entropy(q.cov, q.cross, links.linked)
        return ChainBelief(q.mean, q.cov, q.cross, jnp.sum(links.present * each))

    def matched(self, q: ChainBelief, slopes: ChainBelief, links: Links) -> "ChainSites":
        """The natural parameters that the slopes of expected terms ask for.

        Args:
            q: the chain now.
            slopes: of the expected terms, in its means, covariances and cross-covariances.
            links: how rows follow each other.
        """
        absent = (1.0 - links.present)[:, None, None] * jnp.eye(self.shift.shape[1])
        precision = absent - slopes.cov - jnp.swapaxes(slopes.cov, 1, 2)
        shift = slopes.mean + jnp.einsum("tde,te->td", precision, q.mean)
        if self.coupling is None:
            return ChainSites(links.present[:, None] * shift, precision, None)
        coupling = -links.linked[:, None, None] * slopes.cross
        before = jnp.roll(q.mean, 1, axis=0)
        after = jnp.roll(jnp.einsum("tde,te->td", coupling, q.mean), -1, axis=0)
        shift = shift + jnp.einsum("tde,td->te", coupling, before) + after
        return ChainSites(links.present[:, None] * shift, precision, coupling)

    def fisher_scale(self, q: ChainBelief) -> "ChainSites":
        """Scales of the numbers: deviations, and products of two."""
        deviation = jnp.sqrt(jnp.diagonal(q.cov, axis1=-2, axis2=-1))
        before = jnp.roll(deviation, 1, axis=0)
        within = deviation[:, :, None] * deviation[:, None, :] * 0.5**0.5
        between = None if self.coupling is None else before[:, :, None] * deviation[:, None, :]
        return ChainSites(deviation, within, between)


def sites_of(chain: ChainMoments, links: Links) -> ChainSites:
    """The natural parameters of a chain with given moments."""
    q = chain.belief(links)
    absent = (1.0 - links.present)[:, None, None]
    cov = (1.0 - absent) * q.cov + absent * jnp.eye(q.mean.shape[1])
    natural = chain_from_moments(q.mean, cov, q.cross, links.linked)
    coupling = None if chain.coupling is None else links.linked[:, None, None] * natural.coupling
    return ChainSites(links.present[:, None] * natural.shift, natural.precision, coupling)


def moments_of(sites: ChainSites, links: Links) -> ChainMoments:
    """The moments of a chain with given natural parameters."""
    q = sites.belief(links)
    size = q.mean.shape[1]
    linked, present = links.linked[:, None, None], links.present[:, None, None]
    L, root = jax.vmap(cholesky_and_inverse)(present * q.cov + (1.0 - present) * jnp.eye(size))
    diagonal = jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1))
    raw = jnp.tril(L, -1) + diagonal[..., None] * jnp.eye(size)
    if sites.coupling is None:
        return ChainMoments(q.mean, raw, None)
    # R = L⁻¹ Cov(x, x') L'⁻ᵀ; with C Cᵀ = I + WᵀW is I - RᵀR = C⁻¹ C⁻ᵀ and W = R Cᵀ
    R = linked * (jnp.roll(root, 1, axis=0) @ q.cross @ jnp.swapaxes(root, -1, -2))
    _, C = jax.vmap(cholesky_and_inverse)(jnp.eye(size) - jnp.swapaxes(R, -1, -2) @ R)
    return ChainMoments(q.mean, raw, R @ jnp.swapaxes(C, -1, -2))


@functools.singledispatch
def as_moments(store: ChainMoments, links: Links) -> ChainMoments:
    """A chain by its moments, in whichever form it is stored."""
    return store


@as_moments.register
def _(store: ChainSites, links: Links) -> ChainMoments:
    return moments_of(store, links)


@functools.singledispatch
def as_sites(store: ChainSites, links: Links) -> ChainSites:
    """A chain by its natural parameters, in whichever form it is stored."""
    return store


@as_sites.register
def _(store: ChainMoments, links: Links) -> ChainSites:
    return sites_of(store, links)
