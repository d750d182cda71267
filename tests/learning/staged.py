"""Runs whose stages are answered from a table, so that plans are tested without a fit."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

import cavity
from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning.infer import NumericalError
from cavity.learning.results.result import FitResult
from cavity.learning.run.stages import Run

SETTLED = ConvergenceReport(3, 1e-9, 0, "sweeps", converged=True)


@dataclasses.dataclass(frozen=True)
class Given(FitResult):
    """A result whose outputs have these densities when they are left out."""

    densities: tuple[float, ...] = dataclasses.field(default=(), kw_only=True)

    def leave_one_out(self) -> np.ndarray:
        return np.asarray(self.densities)


MODEL: Any = cavity.GP(cavity.kernels.RBF(1.0, [1.0]), cavity.likelihoods.Gaussian(0.1))


def result(objective: float = 0.0, **known: Any) -> FitResult:
    """A result of a fit that evaluated five times; what is not given is of no matter."""
    model = known.pop("model", MODEL)
    first = (known.pop("posterior", None), -objective, known.pop("converged", True))
    rest = (known.pop("message", "done"), 0.0, known.pop("sites", SETTLED), None, None)
    own = (model, objective, known.pop("history", (objective,)), 1, 5)
    made = Given(*first, *rest, *own, False, None, None)
    return dataclasses.replace(made, **known)


def stopped(objective: float = 0.0, **known: Any) -> FitResult:
    """The result of a fit that was interrupted."""
    return result(objective, **known).stopped()


class Asked(NamedTuple):
    """A stage that a plan asked for: its path, its model, and options of `fit`."""

    name: str
    model: Any
    options: dict[str, Any]


@dataclasses.dataclass
class Table:
    """Answers by the name of a stage: results, or exceptions, which are raised.

    Attributes:
        answers: by name; of several for one name each is given once.
        asked: the stages so far.
    """

    answers: dict[str, Any]
    asked: list[Asked] = dataclasses.field(default_factory=list)

    def __call__(self, path: Any, model: Any, X: Any, y: Any, **options: Any) -> FitResult:
        name = "/".join(part for part in path if part)
        self.asked.append(Asked(name, model, options))
        answer = self.answers[name]
        answer = answer.pop(0) if isinstance(answer, list) else answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def names(self) -> list[str]:
        """The names of the stages that were asked for, in their order."""
        return [each.name for each in self.asked]


def run_of(answers: dict[str, Any], X: Any = None, y: Any = None, **options: Any) -> Any:
    """A run on a table of two rows, and what answers it."""
    table = Table(answers)
    X = np.zeros((2, 1)) if X is None else X
    y = np.zeros(len(X)) if y is None else y
    return Run(table, X, y, options), table


FAILED = NumericalError("not finite")
STOPPED = KeyboardInterrupt()
