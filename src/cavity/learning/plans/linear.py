"""Linear models: learned from the first start that settles, and averaged over their parameters."""

from collections.abc import Callable, Sequence

from cavity.learning.results.result import FitResult
from cavity.learning.run.stages import Run
from cavity.models.base import AbstractModel


def linear_plan(
    run: Run, starts: Sequence[AbstractModel], averaged: Callable[[FitResult], FitResult]
) -> FitResult:
    """The first result that settled, before it was averaged and after; else the first of them.

    Args:
        run: on the table.
        starts: where to begin, the most likely to settle first.
        averaged: from a result to one averaged over its parameters.

    Raises:
        NumericalError: where nothing can be learned from any start.
    """
    learned: list[FitResult] = []
    kept: list[FitResult] = []
    for number, start in enumerate(starts, 1):
        result = run.try_stage(f"start-{number}", start)
        if result is None:
            continue
        learned.append(result)
        if result.converged:
            kept.append(run.improve(result, averaged))
            if kept[-1].converged:
                return kept[-1]
    run.best(learned)  # raises what was wrong where nothing could be learned
    return run.best(kept[:1] or [run.improve(learned[0], averaged)])
