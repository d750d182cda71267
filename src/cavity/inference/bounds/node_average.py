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

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.bounds.base import AbstractOrderedBound, Bounded
from cavity.inference.bounds.layered import (
    Answer,
    Layers,
    answered,
    expected_log,
    negative_divergence,
)
from cavity.inference.factors.base import Stores
from cavity.inference.graph.base import Messages
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.layered import LayeredMoments, no_layers
from cavity.numerics.linalg import cholesky
from cavity.numerics.qmc import normal_points
from cavity.numerics.types import Array, Float, Scalar

# Nodes that are worked on at a time.
TOGETHER = 32


class NodeAverage(AbstractOrderedBound):
    """The bound of layers, averaged over the inducing variables of hidden ones.

    Attributes:
        layers: the layers.
        start: the beliefs about the inducing variables of hidden layers, None for those of the
            last one; and the hidden values.
        nodes: number of nodes that represent the beliefs of hidden layers.
    """

    layers: Layers
    start: Stores
    nodes: int = eqx.field(static=True)

    def __call__(self, stores: Stores) -> Bounded:
        *every, store = stores
        direct = [site for site in every if site is not None]
        sizes = [site.mean.size for site in direct]
        standard = jnp.asarray(normal_points(max(sum(sizes), 1), self.nodes))

        def at(z: Float[Array, " all"]) -> tuple[Scalar, list[tuple[Array, Array]]]:
            values, first = [], 0
            for site in direct:
                own = z[first : first + site.mean.size].reshape(site.mean.shape)
                values.append(site.mean + jnp.einsum("pkm,pm->pk", site.root, own))
                first += site.mean.size
            return self._at(values, store)

        totals, last = jax.lax.map(jax.checkpoint(at), standard, batch_size=TOGETHER)
        total = sum((negative_divergence(site) for site in direct), jnp.mean(totals))
        known = (*(site.belief() for site in direct), *(_mixture(*moments) for moments in last))
        return Bounded(total, (*known, no_layers(total.dtype)))

    def _at(
        self, values: list[Float[Array, "P M"]], store: LayeredMoments
    ) -> tuple[Scalar, list[tuple[Array, Array]]]:
        """The bound where hidden layers' functions are known, and the last one's moments."""

        def answer(i: int, messages: Messages) -> Answer:
            if i >= len(values):
                return answered(messages, None)
            v = values[i]
            known = jnp.zeros((*v.shape, v.shape[1]), v.dtype)
            belief = InducingBelief(v[:, None], known, jnp.zeros((), v.dtype))
            return Answer(belief, expected_log(messages, belief))

        answers, bounded = self.layers.through(store, answer)
        return bounded.log_evidence, [one.belief.dense() for one in answers[len(values) :]]


def _mixture(mean: Float[Array, "K P M"], cov: Float[Array, "K P M M"]) -> InducingBelief:
    """The Gaussian with the moments of a mixture of Gaussians with equal weights."""
    average = jnp.mean(mean, axis=0)
    away = mean - average
    total = jnp.mean(cov, axis=0) + jnp.einsum("kpm,kpn->pmn", away, away) / len(mean)
    L = jax.vmap(cholesky)(total)
    return InducingBelief(average[:, None], jnp.swapaxes(L, 1, 2), jnp.zeros((), average.dtype))
