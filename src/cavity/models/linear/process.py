"""The posterior process of linear functions."""

import functools
from typing import cast

import jax.numpy as jnp

from cavity.inference.graph.marginals import Projection
from cavity.inference.weights.beliefs import DenseWeights, FactoredWeights
from cavity.inference.weights.parameters import ScaleBeliefs
from cavity.inference.weights.views import Design
from cavity.models.process import AbstractProcess, IndependentProcess
from cavity.numerics.types import Array, Float


class LinearProcess(AbstractProcess):
    r"""$f(\mathbf x) = \mathbf x^\top \mathbf w$, through the posterior of its weights.

    Attributes:
        belief: the posterior of the weights.
        design: what the weights multiply.
        scales: what is known of parameters of the prior; None where none are integrated out.
    """

    belief: DenseWeights | FactoredWeights
    design: Design
    scales: ScaleBeliefs | None = None

    @property
    def size(self) -> int:
        return self.weights()[0].shape[0]

    def weights(self) -> tuple[Float[Array, "p P"], Float[Array, "p P"]]:
        """Means and variances of the weights, that of the intercept last."""
        return self.belief.weight_moments()

    def cavities(self) -> tuple[Float[Array, "p P"], Float[Array, "p P"], Array]:
        """Means and variances of the weights without their priors, and whether they are proper."""
        mean, var = self.weights()
        return self.belief.sites.cavity(mean, var, 1.0)

    def block_cavities(
        self,
    ) -> tuple[Float[Array, "B P W"], Float[Array, "B P W W"], Array]:
        """Shifts and precisions of blocks of weights without priors, and whether proper."""
        belief = cast(DenseWeights, self.belief)
        assert belief.block_sites is not None
        assert belief.block_cavities is not None
        return belief.block_sites.cavity(*belief.block_cavities, 1.0)

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        return self.belief.marginal(self._projection(X))

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        loadings = self._projection(X).loadings
        assert loadings is not None
        return self.belief.joint(loadings)

    def _projection(self, X: Float[Array, "n D"]) -> Projection:
        zero = jnp.zeros(X.shape[0], X.dtype)
        return Projection(self.design(X).T, zero, zero[:, None])


@functools.singledispatch
def linear_functions(process: AbstractProcess) -> tuple[LinearProcess, ...]:
    """The functions of a process that are linear in its inputs."""
    return ()


@linear_functions.register
def _(process: LinearProcess) -> tuple[LinearProcess, ...]:
    return (process,)


@linear_functions.register
def _(process: IndependentProcess) -> tuple[LinearProcess, ...]:
    return tuple(own for function in process.functions for own in linear_functions(function))
