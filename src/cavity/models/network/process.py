"""The posterior process of a network, through the posteriors of its weights."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.networks.activations import activation_of
from cavity.inference.networks.term import output_moments, unit_moments
from cavity.inference.weights.beliefs import DenseWeights, FactoredWeights
from cavity.models.linear.process import LinearProcess
from cavity.models.process import AbstractProcess
from cavity.numerics.types import Array, Float


class NetworkProcess(AbstractProcess):
    r"""$f(\mathbf x) = \mathbf v^\top \mathbf g(\mathbf x) + \mathbf x^\top \mathbf u$.

    Attributes:
        hidden: the inputs of the units, as functions.
        activation: name or function.
        output: the posterior of the output weights; None where they are known.
        output_weights: known output weights, the bias last.
        linear: the linear function beside; None for none.
    """

    hidden: LinearProcess
    activation: Any = eqx.field(static=True)
    output: DenseWeights | FactoredWeights | None
    output_weights: Float[Array, " B"] | None
    linear: LinearProcess | None

    @property
    def size(self) -> int:
        units = self.hidden.weights()[0].shape[1]
        return self.hidden.size + units**2

    def output_belief(self) -> tuple[Float[Array, " B"], Float[Array, "B B"]]:
        """Mean and covariance of the output weights."""
        if self.output is None:
            assert self.output_weights is not None
            known = jnp.asarray(self.output_weights)
            return known, jnp.zeros((known.shape[0], known.shape[0]), known.dtype)
        mean, cov = self.output.dense()
        return mean[0], cov[0]

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        mean, var = self.hidden.moments(X)
        units = unit_moments(activation_of(self.activation), mean, var)
        v, V = self.output_belief()
        shape = units.mean.shape
        mean, var = output_moments(
            units, jnp.broadcast_to(v, shape), jnp.broadcast_to(V, (*shape, shape[1]))
        )
        mean, var = mean[:, None], var[:, None]
        if self.linear is None:
            return mean, var
        own = self.linear.moments(X)
        return mean + own[0], var + own[1]

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        mean, var = self.hidden.moments(X)  # n x K
        activation = activation_of(self.activation)
        units = unit_moments(activation, mean, var)
        v, V = self.output_belief()
        # units are independent; those of two rows have covariances each
        pairs = (mean.T[:, :, None], mean.T[:, None, :]), (var.T[:, :, None], var.T[:, None, :])
        within = activation.covariance(*pairs, self.hidden.covariance(X)) / mean.shape[1]
        weight = (v**2 + jnp.diagonal(V))[:-1]
        cov = units.mean @ V @ units.mean.T + jnp.einsum("k,kij->ij", weight, within)
        cov = cov[None]
        return cov if self.linear is None else cov + self.linear.covariance(X)

    def relevance(self) -> Float[Array, " D"]:
        r"""How strongly the units follow each column of the inputs.

        $\sqrt{\sum_k \mathbb E[v_k]^2\, \mathbb E[w_{kj}^2] / K}$, and of a linear part
        $\mathbb E[u_j^2]$ under the root as well; weights are per scale of the columns.
        """
        mean, var = self.hidden.weights()
        v, _ = self.output_belief()
        squares = ((mean**2 + var) @ v[:-1] ** 2)[:-1] / mean.shape[1]
        if self.linear is not None:
            own = self.linear.weights()
            squares = squares + (own[0] ** 2 + own[1])[:, 0]
        return jnp.sqrt(squares)
