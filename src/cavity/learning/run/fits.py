"""Runs whose stages are fits."""

from typing import Any

from numpy.typing import ArrayLike

from cavity.learning.data.given import TrainingRows
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.learning.run.fit import fit
from cavity.learning.run.stages import Run
from cavity.models.base import AbstractModel


def fits(
    X: TrainingRows | None,
    y: ArrayLike | None,
    options: dict[str, Any],
    store: Store | None = None,
) -> Run:
    """A run of fits to one table.

    Args:
        X: inputs, (N, D); batches, or None where the model has none.
        y: outputs, (N,) or (N, P); None with batches.
        options: of every fit, unless a stage has its own.
        store: where they are kept, each in a part of its own; None for nowhere.
    """
    return Run(_fitted, X, y, options, store)


def _fitted(
    path: tuple[str, ...],
    model: AbstractModel,
    X: TrainingRows | None,
    y: ArrayLike | None,
    **how: Any,
) -> FitResult:
    del path
    return fit(model, X, y, **how)
