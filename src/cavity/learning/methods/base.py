"""The abstract method: approximation, solver and training, and checks of settings."""

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.deep.families import FAMILIES


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
    @abc.abstractmethod
    def training(self) -> Training:
        """Settings by which parameters are learned."""

    @property
    def tied(self) -> bool:
        """True if all rows share one site."""
        return self.approximation.tied

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


_WHOLE = ("max_sweeps", "batch", "interleaved", "seed")
_SWITCHES = (
    *("exact", "fallback", "coupled", "tight", "dtc"),
    *("input_sites", "hidden_sites", "joint"),
)
_NUMBERS = ("step", "tolerance", "learning_rate", "natural")


def check_settings(method: Any) -> None:
    """Raises ValueError for settings that no method can have."""
    values = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    given = {name: value for name, value in values.items() if value is not None}
    for name in (name for name in _WHOLE if name in given):
        if not isinstance(given[name], int | np.integer) or isinstance(given[name], bool):
            raise ValueError(f"{name} must be a whole number, given {given[name]!r}")
    for name in (name for name in _SWITCHES if name in given):
        if not isinstance(given[name], bool | np.bool_):
            raise ValueError(f"{name} must be True or False, given {given[name]!r}")
    for name in (name for name in _NUMBERS if name in given):
        number = isinstance(given[name], int | float | np.number)
        if not number or isinstance(given[name], bool) or not np.isfinite(given[name]):
            raise ValueError(f"{name} must be a finite number, given {given[name]!r}")
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
