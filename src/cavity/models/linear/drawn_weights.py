"""Weights of models that Markov chains draw, and the functions that they make."""

from typing import ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.models.process import AbstractProcess
from cavity.numerics.types import Array, Float
from cavity.weights.base import AbstractWeightPrior
from cavity.weights.densities import Gaussian

# The weights of every part of a model, in the order of the parts, each (p, P).
DrawnWeights = tuple[Float[Array, "..."], ...]


class WeightPart(eqx.Module):
    """Weights of a model with one prior.

    Attributes:
        prior: with parameters for each of p weights.
        functions: how many times over there are these weights, P.
        units: the number of the local scale that each weight has, counted from 0, (p,); None
            where each has its own.
    """

    prior: AbstractWeightPrior
    functions: int = eqx.field(static=True, default=1)
    units: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the weights, (p, P)."""
        return np.shape(self.prior.starting_variance())[0], self.functions

    @property
    def firsts(self) -> np.ndarray:
        """The first weight of every unit."""
        if self.units is None:
            return np.arange(self.shape[0])
        return np.unique(self.units, return_index=True)[1]


def gaussian_part(variance: Array, functions: int = 1) -> WeightPart:
    """An intercept or a bias."""
    return WeightPart(Gaussian(variance).for_weights(None, 1), functions)


@runtime_checkable
class HasWeights(Protocol):
    """A model whose functions are known once its weights are.

    Attributes:
        identified: whether data tell the weights apart; those of hidden units change places.
    """

    identified: ClassVar[bool]

    def weight_parts(self, columns: int) -> tuple[WeightPart, ...]:
        """The weights by prior.

        Args:
            columns: of the inputs.

        Raises:
            ValueError: for what keeps weights from being drawn.
        """
        ...

    def functions_of(self, weights: DrawnWeights, X: Float[Array, "n D"]) -> Float[Array, "n L"]:
        """The latent functions at the rows of X."""
        ...

    def named_weights(self, weights: DrawnWeights) -> dict[str, Array]:
        """The weights as users know them."""
        ...


@runtime_checkable
class HasNamedWeights(Protocol):
    """A process whose weights are known."""

    def named_weights(self) -> dict[str, Array]:
        """The weights as users know them."""
        ...


class KnownWeights(AbstractProcess):
    """The functions of a model with known weights, such as those of a draw.

    Attributes:
        model: a model with weights.
        weights: its weights.
    """

    model: HasWeights
    weights: DrawnWeights

    @property
    def size(self) -> int:
        return sum(int(np.prod(w.shape)) for w in self.weights)

    def named_weights(self) -> dict[str, Array]:
        """The weights as users know them."""
        return self.model.named_weights(self.weights)

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        f = self.model.functions_of(self.weights, X)
        return f, jnp.zeros_like(f)

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        f = self.model.functions_of(self.weights, X)
        return jnp.zeros((f.shape[1], len(f), len(f)), f.dtype)
