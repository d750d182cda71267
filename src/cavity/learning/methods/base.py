"""The abstract method: approximation, solver and training, and checks of settings."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.deep.families import FAMILIES

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Training:
    """Settings by which parameters are learned.

    Attributes:
        steps: steps of Adam; None for L-BFGS-B.
        batch: rows of a minibatch; None for all of them.
        learning_rate: of Adam.
        natural: the step of natural gradients for tied sites; None leaves them to the optimiser.
        seed: of the minibatches.
        tolerance: nats per iteration below which L-BFGS-B ends over tied sites.
        iterations: iterations of L-BFGS-B at the most over tied sites.
    """

    steps: int | None = None
    batch: int | None = None
    learning_rate: float = 0.05
    natural: float | None = None
    seed: int = 0
    tolerance: float = 1e-4
    iterations: int = 2000


@dataclasses.dataclass(frozen=True)
class AbstractMethod(abc.ABC):
    """An inference method as users ask for it.

    To implement:
        `approximation`, `solver` and `check(likelihood)`; `training` where parameters are not
        learned by L-BFGS-B with converged sites.

    Attributes:
        samples: whether the method draws in the place of an approximation.
    """

    samples: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def approximation(self) -> AbstractApproximation:
        """Approximation of the likelihood terms."""

    @property
    @abc.abstractmethod
    def solver(self) -> FixedPointSolver:
        """Settings by which sites are found."""

    @property
    def training(self) -> Training:
        """Settings by which parameters are learned."""
        return Training()

    @property
    def tied(self) -> bool:
        """True if all rows share one site."""
        return self.approximation.tied

    def chosen(self, approximate: Callable[["AbstractMethod"], T], sample: object) -> T:
        """Result of the first function on this method; methods are no chains."""
        return approximate(self)

    @abc.abstractmethod
    def check(self, likelihood: AbstractLikelihood) -> None:
        """Raises ValueError for a likelihood that the method cannot work with."""

    @abc.abstractmethod
    def check_layout(self, likelihood: AbstractLikelihood, *, sparse: bool, blocked: bool) -> None:
        """Raises ValueError for a model or blocks that the method cannot work with."""

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        """True if the posterior keeps several latent functions of a row dependent."""
        return self.approximation.couples(likelihood)


def check_bound(name: str, likelihood: AbstractLikelihood) -> None:
    """Raises ValueError for a likelihood without a Gaussian lower bound."""
    if not likelihood.has_bound:
        raise ValueError(
            f"{name} needs a likelihood with a Gaussian lower bound (StudentT, Laplace, "
            "Bernoulli(link='logit'), MultinomialProbit, Softmax), given "
            f"{type(likelihood).__name__}; use PowerEP() or Laplace()"
        )


_SWITCHES = (
    *("exact", "fallback", "coupled", "tight", "dtc"),
    *("input_sites", "hidden_sites", "joint"),
)
_NUMBERS = ("step", "tolerance", "learning_rate", "natural")
# Names of settings, what they may be, and that in words.
_KINDS = (
    (("max_sweeps", "batch", "interleaved", "seed"), int | np.integer, "a whole number"),
    (_SWITCHES, bool | np.bool_, "True or False"),
    (_NUMBERS, int | float | np.number, "a finite number"),
)


def check_settings(method: Any) -> None:
    """Raises ValueError for settings that no method can have."""
    given = {name: value for name, value in vars(method).items() if value is not None}
    for names, kind, wanted in _KINDS:
        for name in (name for name in names if name in given):
            value = given[name]
            # True and False are whole numbers to Python
            good = isinstance(value, kind) and (names is _SWITCHES or not isinstance(value, bool))
            if not good or (names is _NUMBERS and not np.isfinite(value)):
                raise ValueError(f"{name} must be {wanted}, given {value!r}")
    for name in ("step", "natural"):
        if name in given and not 0.0 < given[name] <= 1.0:
            raise ValueError(f"{name} must lie in (0, 1], given {given[name]}")
    for name in ("tolerance", "learning_rate"):
        if name in given and not given[name] > 0.0:
            raise ValueError(f"{name} must be positive, given {given[name]}")
    if given.get("hidden", "chain") not in FAMILIES:
        raise ValueError(f"hidden must be one of {', '.join(FAMILIES)}, given {given['hidden']!r}")
    if given["max_sweeps"] < 1:
        raise ValueError(f"max_sweeps must be at least 1, given {given['max_sweeps']}")
    if given.get("batch", 1) < 1:
        raise ValueError(f"batch must be at least 1 row, or None for all, given {given['batch']}")
    if given.get("interleaved", 1) < 1:
        raise ValueError(f"interleaved must be at least 1 step, given {given['interleaved']}")
