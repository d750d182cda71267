"""Views of states with sites of their own: pairs, single states, and projections of these.

The rows of a factor are those of the whole table, one per state.
"""

import abc
import typing
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.factors.tied import raw_of
from cavity.inference.graph.base import AbstractSiteView
from cavity.inference.graph.marginals import Latent, Marginal, Moments
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, BlockSites, empty_row_sites
from cavity.inference.variables.chain import ChainBelief, ChainMoments
from cavity.inference.variables.chain_messages import Chain, ChainMessages
from cavity.inference.variables.inducing_view import OutputMean
from cavity.models.state_space.views import shifted
from cavity.numerics.types import Array, Float


class Start(eqx.Module):
    """Independent states that a search starts from.

    Attributes:
        mean: means.
        cov: the covariance that all have.
    """

    mean: Float[Array, "T D"]
    cov: Float[Array, "D D"]

    def moments(self, *, coupled: bool = False) -> ChainMoments:
        """The states themselves, as numbers that an optimiser moves.

        Args:
            coupled: whether neighbours may depend on each other, which they do not yet.
        """
        raw = raw_of(jnp.linalg.cholesky(self.cov))
        raw = jnp.broadcast_to(raw, (len(self.mean), *raw.shape))
        return ChainMoments(self.mean, raw, jnp.zeros_like(raw) if coupled else None)

    def sites(self) -> tuple[Float[Array, "T D"], Float[Array, "T D D"]]:
        """Shifts and precisions of the sites that make these states of a flat prior."""
        precision = jnp.linalg.inv(self.cov)
        return self.mean @ precision, jnp.broadcast_to(
            precision, (len(self.mean), *self.cov.shape)
        )


class AbstractStateView(AbstractSiteView[ChainBelief, Chain]):
    """Rows with a site each on some values of the states around them.

    To implement:
        `presence(rows)`, `marginal(belief, rows, sites)`, `at(moments, rows)`,
        `empty_sites(rows)` and `messages(variable, rows, sites)`.
    """

    @typing.final
    def without_site(
        self, belief: ChainBelief, rows: Rows, sites: AbstractSites
    ) -> tuple[Latent, Array]:
        marginal = self.marginal(belief, rows, sites)
        mean, var, proper = sites.cavity(*marginal.moments, 1.0)
        return marginal.latent(mean, var), proper


class AbstractBlockView(AbstractStateView):
    """Rows with one Gaussian site each on a vector.

    To implement:
        `vectors(belief)`, `empty_sites(rows)` and `messages(variable, rows, sites)`.
    """

    scalar: ClassVar[bool] = False

    @abc.abstractmethod
    def vectors(self, belief: ChainBelief) -> tuple[Float[Array, "T B"], Float[Array, "T B B"]]:
        """Means and covariances of the vectors that rows see."""

    @typing.final
    def presence(self, rows: Rows) -> Array:
        return jnp.max(rows.site_presence, axis=1, keepdims=True)

    @typing.final
    def marginal(
        self, belief: ChainBelief, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        mean, cov = self.vectors(belief)
        if rows.index is not None:
            mean, cov = mean[rows.index], cov[rows.index]
        return self.at((mean[:, None], cov[:, None]), rows)

    @typing.final
    def at(self, moments: Moments, rows: Rows) -> Marginal:
        return Marginal.of_values(*moments)


class PairView(AbstractBlockView):
    """Every row sees the state of the row before and its own, in this order.

    Attributes:
        start: states that a search starts from.
    """

    start: Start

    def vectors(self, belief: ChainBelief) -> tuple[Float[Array, "T B"], Float[Array, "T B B"]]:
        mean = jnp.concatenate([shifted(belief.mean), belief.mean], axis=1)
        above = jnp.concatenate([shifted(belief.cov), belief.cross], axis=2)
        below = jnp.concatenate([jnp.swapaxes(belief.cross, 1, 2), belief.cov], axis=2)
        return mean, jnp.concatenate([above, below], axis=1)

    def empty_sites(self, rows: Rows) -> BlockSites:
        """Sites that make the states to start from: a flat prior needs some."""
        shift, precision = self.start.sites()
        size, present = shift.shape[1], self.presence(rows)
        shift = jnp.pad(present * shift, [(0, 0), (size, 0)])
        precision = jnp.pad(present[:, None] * precision, [(0, 0), (size, 0), (size, 0)])
        return BlockSites(shift[:, None], precision[:, None])

    def messages(self, variable: Chain, rows: Rows, sites: AbstractSites) -> ChainMessages:
        h, P = sites.shift[:, 0], sites.precision[:, 0]
        size = h.shape[1] // 2
        return ChainMessages(
            h[:, size:] + earlier(h[:, :size]),
            P[:, size:, size:] + earlier(P[:, :size, :size]),
            0.5 * (P[:, :size, size:] + jnp.swapaxes(P[:, size:, :size], 1, 2)),
            jnp.zeros((), h.dtype),
        )


class OneStateView(AbstractBlockView):
    """Every row sees one state.

    Attributes:
        before: whether it is that of the row before, in the place of its own.
        start: states that a search starts from; None for sites of precision zero.
    """

    before: bool = eqx.field(static=True)
    size: int = eqx.field(static=True)
    start: Start | None = None

    def vectors(self, belief: ChainBelief) -> tuple[Float[Array, "T B"], Float[Array, "T B B"]]:
        if self.before:
            return shifted(belief.mean), shifted(belief.cov)
        return belief.mean, belief.cov

    def empty_sites(self, rows: Rows) -> BlockSites:
        """Sites of precision zero, or those that make the states to start from."""
        if self.start is None:
            zero = jnp.zeros((rows.y.shape[0], 1, self.size), rows.y.dtype)
            return BlockSites(zero, jnp.zeros((*zero.shape, self.size), zero.dtype))
        shift, precision = self.start.sites()
        present = self.presence(rows)
        return BlockSites((present * shift)[:, None], (present[:, None] * precision)[:, None])

    def messages(self, variable: Chain, rows: Rows, sites: AbstractSites) -> ChainMessages:
        h, P = sites.shift[:, 0], sites.precision[:, 0]
        if self.before:
            h, P = earlier(h), earlier(P)
        return ChainMessages(h, P, jnp.zeros_like(P), jnp.zeros((), h.dtype))


class AffineStateView(AbstractStateView):
    """Every row sees affine functions of its state, with a scalar site on each.

    Attributes:
        mean: the functions.
        size: coordinates of a state.
    """

    mean: OutputMean
    size: int = eqx.field(static=True)

    @property
    def _slopes(self) -> Float[Array, "P D"]:
        return jax.jacfwd(lambda x: self.mean(x[None])[0])(jnp.zeros(self.size))

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        zero = jnp.zeros((), moments[0].dtype)
        return Marginal(*moments, self.mean(jnp.zeros((1, self.size), zero.dtype)), zero)

    def presence(self, rows: Rows) -> Array:
        return rows.site_presence

    def marginal(
        self, belief: ChainBelief, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        C = self._slopes
        var = jnp.einsum("pd,tde,pe->tp", C, belief.cov, C)
        return self.at((belief.mean @ C.T, var), rows)

    def empty_sites(self, rows: Rows) -> AbstractSites:
        return empty_row_sites(rows)

    def messages(self, variable: Chain, rows: Rows, sites: AbstractSites) -> ChainMessages:
        C = self._slopes
        precision = jnp.einsum("tp,pd,pe->tde", sites.precision, C, C)
        zero = jnp.zeros((), precision.dtype)
        return ChainMessages(sites.shift @ C, precision, jnp.zeros_like(precision), zero)


def earlier(values: Float[Array, "T *shape"]) -> Float[Array, "T *shape"]:
    """Values of the row after, for every row; zero for the last."""
    return jnp.concatenate([values[1:], jnp.zeros_like(values[:1])])
