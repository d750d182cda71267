"""Tied sites at fixed parameters: minimisation of the energy in the sites."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity.inference.energy import Sites
from cavity.learning.data.training_data import AbstractTrainingData
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.objectives.evidence import Objective
from cavity.learning.optimisers.lbfgs import Minimum, Progress, minimise
from cavity.learning.progress.checkpoint import Search
from cavity.learning.search.adam import Adam
from cavity.models.base import AbstractModel
from cavity.parameters import FIXED, describe


def minimise_over_tied_sites(
    model: AbstractModel,
    data: AbstractTrainingData,
    method: AbstractMethod,
    jitter: float,
    sites: Sites | None = None,
) -> tuple[Objective, Minimum]:
    """The minimum over the tied sites, at the parameters that the model has.

    Args:
        model: the model.
        data: prepared data.
        method: the inference method.
        jitter: the jitter to begin with.
        sites: where to start; None for sites of precision zero.
    """
    fixed = describe(model, lambda *_: FIXED)
    objective = Objective(model, data, maps=fixed, method=method, jitter=jitter, sites=sites)
    training = method.training
    minimum = minimise_objective(
        objective,
        objective.first,
        max_iterations=training.iterations,
        tolerance=training.tolerance,
        callback=None,
        search=Search(),
    )
    return objective, minimum


def minimise_objective(
    objective: Objective,
    x: np.ndarray,
    *,
    max_iterations: int,
    callback: Callable[[Progress], None] | None,
    search: Search,
    **ending: Any,
) -> Minimum:
    """Minimises an objective from `x`: by L-BFGS-B, or with minibatches by Adam.

    Args:
        objective: the objective.
        x: where to start.
        max_iterations: of L-BFGS-B at the most; 0 to stay at `x`.
        callback: called after every iteration.
        search: where the search is saved.
        **ending: further arguments of `minimise`.
    """
    training = objective.method.training
    if training.steps is None or not objective.has_optimised or max_iterations == 0:
        with search.recorded(objective) as fn:
            return minimise(
                fn,
                x,
                bounds=objective.bounds,
                max_iterations=max_iterations,
                callback=callback,
                **ending,
            )
    return Adam(objective, x, training, callback, search).run()
