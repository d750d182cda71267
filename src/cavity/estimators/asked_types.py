"""Types of settings, for checkers of types; at run time `fit` checks settings itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import numpy as np

if TYPE_CHECKING:
    from cavity.kernels.base import AbstractKernel
    from cavity.learning.engines.base import AbstractEngine
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
    PointsAsked = int | str | None
    ShapeAsked = Sequence[int] | None
    WidthsAsked = int | Sequence[int]
else:
    # what is wrong is told by `fit`, as scikit-learn asks, and in words
    KernelAsked = LikelihoodAsked = MethodAsked = PowerAsked = Count = Amount = object
    AbstractEngine = ClassWeightAsked = PointsAsked = ShapeAsked = WidthsAsked = object


Yes = Literal[True]
No = Literal[False]
Mean = np.ndarray
Both = tuple[np.ndarray, np.ndarray]


class StdOnRequest(Protocol):
    """A method that also returns deviations where that is asked for."""

    @overload
    def __call__(self, X: object, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def __call__(self, X: object, return_std: Literal[True]) -> Both: ...

    @overload
    def __call__(self, X: object, *, return_std: bool) -> np.ndarray | Both: ...


class LatentOnRequest(Protocol):
    """A method that also returns deviations or covariances where that is asked for."""

    @overload
    def __call__(
        self,
        X: object,
        return_std: No = False,
        return_cov: No = False,
        engine: AbstractEngine | None = None,
    ) -> Mean: ...

    @overload
    def __call__(
        self,
        X: object,
        return_std: Yes,
        return_cov: No = False,
        engine: AbstractEngine | None = None,
    ) -> Both: ...

    @overload
    def __call__(self, X: object, return_std: No = False, *, return_cov: Yes) -> Both: ...

    @overload
    def __call__(
        self,
        X: object,
        *,
        return_std: bool,
        return_cov: bool = False,
        engine: AbstractEngine | None = None,
    ) -> Mean | Both: ...


class OutputsOnRequest(Protocol):
    """As `LatentOnRequest`, with side data of the rows."""

    @overload
    def __call__(
        self,
        X: object,
        return_std: No = False,
        return_cov: No = False,
        noise_variance: object = None,
        exposure: object = None,
        engine: AbstractEngine | None = None,
    ) -> Mean: ...

    @overload
    def __call__(
        self,
        X: object,
        return_std: Yes,
        return_cov: No = False,
        noise_variance: object = None,
        exposure: object = None,
        engine: AbstractEngine | None = None,
    ) -> Both: ...

    @overload
    def __call__(
        self,
        X: object,
        return_std: No = False,
        *,
        return_cov: Yes,
        noise_variance: object = None,
        exposure: object = None,
    ) -> Both: ...

    @overload
    def __call__(
        self,
        X: object,
        *,
        return_std: bool,
        return_cov: bool = False,
        noise_variance: object = None,
        exposure: object = None,
        engine: AbstractEngine | None = None,
    ) -> Mean | Both: ...


if TYPE_CHECKING:

    def std_on_request(method: Callable[..., object]) -> StdOnRequest:
        """The method itself, with what checkers of types are to know of it."""
        ...

    def latent_on_request(method: Callable[..., object]) -> LatentOnRequest:
        """The method itself, with what checkers of types are to know of it."""
        ...

    def outputs_on_request(method: Callable[..., object]) -> OutputsOnRequest:
        """The method itself, with what checkers of types are to know of it."""
        ...

else:

    def std_on_request(method: Callable[..., object]) -> Callable[..., object]:
        """The method itself; checkers of types know more of it."""
        return method

    latent_on_request = outputs_on_request = std_on_request
