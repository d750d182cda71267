"""Types of settings, for checkers of types; at run time `fit` checks settings itself."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, overload

import numpy as np

if TYPE_CHECKING:
    from cavity.kernels.base import AbstractKernel
    from cavity.learning.methods.base import AbstractMethod
    from cavity.learning.methods.mcmc import MCMC
    from cavity.likelihoods.base import AbstractLikelihood

    KernelAsked = str | AbstractKernel | tuple[AbstractKernel, ...]
    LikelihoodAsked = str | AbstractLikelihood
    MethodAsked = str | AbstractMethod | MCMC
    PowerAsked = float | str | np.ndarray
    ClassWeightAsked = str | Mapping[Any, float] | None
    Count = int | np.integer
    Amount = float | np.floating
else:
    # what is wrong is told by `fit`, as scikit-learn asks, and in words
    KernelAsked = LikelihoodAsked = MethodAsked = PowerAsked = Count = Amount = object
    ClassWeightAsked = object


class StdOnRequest(Protocol):
    """A method that also returns deviations where that is asked for."""

    @overload
    def __call__(self, X: object, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def __call__(self, X: object, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def __call__(
        self, X: object, *, return_std: bool
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...


class LatentOnRequest(Protocol):
    """A method that also returns deviations or covariances where that is asked for."""

    @overload
    def __call__(
        self, X: object, return_std: Literal[False] = False, return_cov: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def __call__(
        self, X: object, return_std: Literal[True], return_cov: Literal[False] = False
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def __call__(
        self, X: object, return_std: Literal[False] = False, *, return_cov: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def __call__(
        self, X: object, *, return_std: bool, return_cov: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...


if TYPE_CHECKING:
    StdMethod = StdOnRequest
    LatentMethod = LatentOnRequest
else:
    StdMethod = LatentMethod = object


def std_on_request(method: Callable[..., object]) -> StdMethod:
    """The method itself, with what checkers of types are to know of it."""
    return cast(StdMethod, method)


def latent_on_request(method: Callable[..., object]) -> LatentMethod:
    """The method itself, with what checkers of types are to know of it."""
    return cast(LatentMethod, method)
