"""Parts of a model: functions of a Gaussian process or of layers, or weights."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from cavity.inducing.base import AbstractInducing
from cavity.kernels.base import AbstractKernel
from cavity.likelihoods.capabilities import capability
from cavity.means import AbstractMean
from cavity.models.base import AbstractModel
from cavity.models.deep.layer import layers_of
from cavity.weights.base import AbstractWeightPrior


@runtime_checkable
class Functions(Protocol):
    """Functions with Gaussian process priors."""

    @property
    def kernel(self) -> AbstractKernel | tuple[AbstractKernel, ...]:
        """The kernel of all functions, or of each."""
        ...

    @property
    def inducing(self) -> AbstractInducing | tuple[AbstractInducing, ...] | None:
        """The inducing variables of all functions, or of each; None for none."""
        ...

    @property
    def mean(self) -> AbstractMean | tuple[AbstractMean, ...]:
        """The prior mean of all functions, or of each."""
        ...


@runtime_checkable
class HasWeights(Protocol):
    """A linear model, or a network."""

    @property
    def priors(self) -> tuple[AbstractWeightPrior, ...]:
        """The prior of the weights of every latent function, or of units."""
        ...


def weight_priors(model: AbstractModel) -> tuple[AbstractWeightPrior, ...]:
    """The priors of the weights of a linear model or network; none of any other."""
    linear = capability(model, HasWeights)
    return () if linear is None else linear.priors


def first_functions(model: AbstractModel) -> Functions:
    """The functions of the inputs: of a deep model those of its first layer.

    Raises:
        TypeError: for a model that is no Gaussian process, deep or not.
    """
    return _functions(model)[0]


def last_functions(model: AbstractModel) -> Functions:
    """The functions that outputs depend on: of a deep model those of its last layer.

    Raises:
        TypeError: for a model that is no Gaussian process, deep or not.
    """
    return _functions(model)[-1]


def _functions(model: AbstractModel) -> Sequence[Functions]:
    functions = capability(model, Functions)
    if functions is not None:
        return (functions,)
    layers = layers_of(model)
    if not layers:
        raise TypeError(f"{type(model).__name__} is no Gaussian process, deep or not")
    return layers
