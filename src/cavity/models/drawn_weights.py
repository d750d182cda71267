"""Weights of models that Markov chains draw, and the functions that they make."""

from typing import ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.models.process import AbstractProcess
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float
from cavity.weights.base import AbstractScaleMixture, AbstractWeightPrior, Components
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

    @property
    def local_scales(self) -> int:
        """Number of local scales, one for each unit and function; 0 for none."""
        return len(self.firsts) * self.functions if self.prior.has_local_scales else 0

    def log_joint(self, weights: Float[Array, "p P"]) -> Float[Array, "S U P"]:
        """Logs of share times density of each unit's weights, for each Gaussian of a mixture."""
        prior = self.prior
        assert isinstance(prior, AbstractScaleMixture)
        log_share, s = (jnp.asarray(x) for x in prior.scales())
        each = -0.5 * (LOG_2PI + jnp.log(s) + weights**2 / s)
        if self.units is not None:
            blank = jnp.zeros((each.shape[0], len(self.firsts), each.shape[2]), each.dtype)
            each = blank.at[:, jnp.asarray(self.units)].add(each)
        log_share = jnp.broadcast_to(log_share, (log_share.shape[0], weights.shape[0], 1))
        return log_share[:, self.firsts] + each

    def inclusion(self, weights: Float[Array, "p P"]) -> Float[Array, "p P"] | None:
        """The probability that known weights are of the slab; None for a prior without a spike."""
        if not isinstance(self.prior, AbstractScaleMixture):
            return None
        log_share = jax.nn.log_softmax(self.log_joint(weights), axis=0)
        if self.units is not None:
            log_share = log_share[:, jnp.asarray(self.units)]
        return self.prior.inclusion_of(Components(log_share, weights, jnp.zeros_like(weights)))


def gaussian_part(variance: Array, functions: int = 1) -> WeightPart:
    """An intercept or a bias."""
    return WeightPart(Gaussian(variance).for_weights(None, 1), functions)


@runtime_checkable
class HasWeightParts(Protocol):
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


class KnownWeights(AbstractProcess):
    """The functions of a model with known weights, such as those of a draw.

    Attributes:
        model: a model with weights.
        weights: its weights.
    """

    model: HasWeightParts
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
