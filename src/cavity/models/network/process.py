"""The posterior process of a network, through the posteriors of its weights."""

from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.networks.activations import activation_of
from cavity.inference.networks.term import through_layers, unit_moments
from cavity.inference.weights.beliefs import DenseWeights, FactoredWeights
from cavity.models.linear.process import LinearProcess
from cavity.models.process import AbstractProcess
from cavity.numerics.types import Array, Float


class NetworkProcess(AbstractProcess):
    r"""$f(\mathbf x) = \mathbf v^\top \mathbf g(\mathbf x) + \mathbf x^\top \mathbf u$.

    Attributes:
        hidden: the inputs of the units of the first layer, as functions.
        activation: name or function.
        output: the posterior of the output weights; None where they are known.
        output_weights: known output weights, the bias last.
        linear: the linear function beside; None for none.
        inner: posteriors of the weights of units of further layers.
    """

    hidden: LinearProcess
    activation: Any = eqx.field(static=True)
    output: DenseWeights | FactoredWeights | None
    output_weights: Float[Array, " B"] | None
    linear: LinearProcess | None
    inner: tuple[DenseWeights, ...] = ()

    @property
    def size(self) -> int:
        return self.hidden.size + sum(mean.size * mean.shape[1] for mean, _ in self._above())

    def _above(self) -> list[tuple[Float[Array, "..."], Float[Array, "..."]]]:
        """Means and covariances of the weights of further layers, the output's last."""
        mean, cov = self.output_belief()
        return [*(belief.dense() for belief in self.inner), (mean[None], cov[None])]

    def output_belief(self) -> tuple[Float[Array, " B"], Float[Array, "B B"]]:
        """Mean and covariance of the output weights."""
        if self.output is None:
            assert self.output_weights is not None
            known = jnp.asarray(self.output_weights)
            return known, jnp.zeros((known.shape[0], known.shape[0]), known.dtype)
        mean, cov = self.output.dense()
        return mean[0], cov[0]

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        each = [
            tuple(jnp.broadcast_to(x, (X.shape[0], *x.shape)) for x in weights)
            for weights in self._above()
        ]
        hidden, above = self.hidden.moments(X), cast(Any, each)
        mean, var = through_layers(activation_of(self.activation), hidden, above)
        if self.linear is None:
            return mean, var
        own = self.linear.moments(X)
        return mean + own[0], var + own[1]

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        mean, var = self.hidden.moments(X)  # n x K
        cov, activation = self.hidden.covariance(X), activation_of(self.activation)
        for weights in self._above():
            units = unit_moments(activation, mean, var)
            # units are independent; those of two rows have covariances each
            pairs = (mean.T[:, :, None], mean.T[:, None]), (var.T[:, :, None], var.T[:, None])
            within = activation.covariance(*pairs, cov) / mean.shape[1]
            v, V = weights
            squares = (v**2 + jnp.diagonal(V, axis1=1, axis2=2))[:, :-1]
            cov = units.mean @ V @ units.mean.T + jnp.einsum("pk,kij->pij", squares, within)
            mean, var = units.mean @ v.T, jnp.diagonal(cov, axis1=1, axis2=2).T
        return cov if self.linear is None else cov + self.linear.covariance(X)

    def relevance(self) -> Float[Array, " D"]:
        r"""Relevance of each column of the inputs to the units.

        $\sqrt{\sum_k \mathbb E[v_k]^2\, \mathbb E[w_{kj}^2] / K}$, and of a linear part
        $\mathbb E[u_j^2]$ under the root as well; weights are per scale of the columns. With
        further layers $\mathbb E[v_k]^2$ is summed over the ways to the output.
        """
        mean, var = self.hidden.weights()
        ways = jnp.ones(1)
        for v, _ in reversed(self._above()):
            ways = ways @ v[:, :-1] ** 2 / (v.shape[1] - 1)
        squares = ((mean**2 + var) @ ways)[:-1]
        if self.linear is not None:
            own = self.linear.weights()
            squares = squares + (own[0] ** 2 + own[1])[:, 0]
        return jnp.sqrt(squares)
