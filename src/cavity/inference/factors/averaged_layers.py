r"""Layers of which the last has its best posterior given the functions of the others.

With the inducing variables $\mathbf v_{<L}$ of hidden layers at a node of their belief, hidden
values are Gaussian and the last layer's inducing variables have their optimum in closed form,
another one at every node. The bound is the mean over nodes of what all of that gives, minus the
divergence of the belief:

$$\mathbb E_{q(\mathbf v_{<L})} \Big[\sum_{l < L} \log t_l(\mathbf v_l) + \log \int
p(\mathbf v_L)\, t_L(\mathbf v_L; \mathbf v_{<L})\, d\mathbf v_L \Big] - \mathrm{KL}.$$

References:
    Chamberlin (2016), S23, where the posterior of $\mathbf v_L$ is linear in the others.
"""

from collections.abc import Sequence
from typing import ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.factors.base import (
    AbstractFactor,
    Beliefs,
    Edge,
    EdgeMoments,
    Sent,
    SiteUpdate,
    Stores,
)
from cavity.inference.factors.layered import (
    Answer,
    LayeredFactor,
    expected_log,
    negative_divergence,
)
from cavity.inference.factors.tied import TiedSite
from cavity.inference.factors.uncertain import Regression
from cavity.inference.graph.base import AbstractVariable, Messages
from cavity.inference.variables.inducing import (
    DirectMessages,
    InducingBelief,
    WhitenedInducing,
)
from cavity.inference.variables.inducing_view import InducingView
from cavity.inference.variables.layered import LayeredBelief, LayeredMoments
from cavity.numerics.linalg import cholesky
from cavity.numerics.power_limits import Power
from cavity.numerics.qmc import normal_points
from cavity.numerics.types import Array, Float, Scalar

# Nodes that are worked on at a time.
TOGETHER = 32


class AveragedLayersFactor(AbstractFactor):
    """The rows of a deep model, averaged over the inducing variables of hidden layers.

    Attributes:
        edges: the inducing variables of all layers.
        layers: the layers, those of hidden ones with beliefs that are given directly.
        nodes: number of nodes that represent the beliefs of hidden layers.
    """

    edges: tuple[Edge, ...]
    layers: LayeredFactor
    nodes: int = eqx.field(static=True)

    has_rows: ClassVar[bool] = False

    @property
    def stationary(self) -> bool:
        return True

    @property
    def regressions(self) -> tuple[Regression, ...]:
        """The functions of every layer."""
        return self.layers.regressions

    def empty_sites(self) -> Stores:
        return self.layers.empty_sites()

    def messages(self, variables: Sequence[AbstractVariable], sites: Stores) -> Sent:
        *every, store = sites
        direct = {i: cast(TiedSite, site) for i, site in enumerate(every) if site is not None}
        sizes = [site.mean.size for site in direct.values()]
        standard = jnp.asarray(normal_points(max(sum(sizes), 1), self.nodes))

        def at(z: Float[Array, " all"]) -> tuple[Scalar, list[tuple[Array, Array]]]:
            values, first = {}, 0
            for i, site in direct.items():
                own = z[first : first + site.mean.size].reshape(site.mean.shape)
                values[i] = site.mean + jnp.einsum("pkm,pm->pk", site.root, own)
                first += site.mean.size
            return self._at(values, cast(LayeredMoments, store))

        totals, last = jax.lax.map(jax.checkpoint(at), standard, batch_size=TOGETHER)
        total = jnp.mean(totals)
        total = sum((negative_divergence(site) for site in direct.values()), total)
        sent = [(i, site.messages()) for i, site in direct.items()]
        sent += [
            (i, _mixture(*moments))
            for i, moments in zip(range(len(direct), len(every)), last, strict=True)
        ]
        return (*sent, (self.layers.hidden, LayeredBelief(layers=(), log_normaliser=total)))

    def log_scale(
        self,
        q: Beliefs,
        sites: Stores,
        fixed: EdgeMoments | None = None,
        *,
        settled: bool = False,
    ) -> Scalar:
        return jnp.zeros((), self.layers.rows.y.dtype)

    def update(self, q: Beliefs, sites: Stores, step: Power) -> SiteUpdate:
        zero = jnp.zeros(())
        return SiteUpdate(sites, zero, zero, sites)

    def _at(
        self, values: dict[int, Float[Array, "P M"]], store: LayeredMoments
    ) -> tuple[Scalar, list[tuple[Array, Array]]]:
        """The bound where hidden layers' functions are known, and the last one's moments."""

        def answer(i: int, messages: Messages) -> Answer:
            if i in values:
                v = values[i]
                known = jnp.zeros((*v.shape, v.shape[1]), v.dtype)
                belief = InducingBelief(v[:, None], known, jnp.zeros((), v.dtype))
                return Answer(None, belief, expected_log(messages, belief))
            size = cast(InducingView, self.edges[i].view).inducing.size
            belief = WhitenedInducing(size).belief(messages)
            return Answer(None, belief, belief.log_normaliser)

        answers, belief = self.layers.through(store, answer)
        last = [one.belief.dense() for i, one in answers if i not in values]
        return belief.log_normaliser, last


def _mixture(mean: Float[Array, "K P M"], cov: Float[Array, "K P M M"]) -> DirectMessages:
    """The moments of a mixture of Gaussians with equal weights."""
    average = jnp.mean(mean, axis=0)
    away = mean - average
    total = jnp.mean(cov, axis=0) + jnp.einsum("kpm,kpn->pmn", away, away) / len(mean)
    L = jax.vmap(cholesky)(total)
    return DirectMessages(average[:, None], jnp.swapaxes(L, 1, 2))
