"""Tied sites at fixed parameters: minimisation of the energy in the sites."""

from collections.abc import Callable

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
    tolerance: float,
    callback: Callable[[Progress], None] | None,
    search: Search,
    rescale: bool = False,
) -> Minimum:
    """Minimises an objective from `x`: by L-BFGS-B, or with minibatches by Adam."""
    training = objective.method.training
    if training.steps is None or not objective.has_optimised or max_iterations == 0:
        with search.recorded(objective) as fn:
            return minimise(
                fn,
                x,
                bounds=objective.bounds,
                max_iterations=max_iterations,
                tolerance=tolerance,
                callback=callback,
                rescale=rescale,
            )
    steps, rate = training.steps, training.learning_rate
    return Adam(objective, x, steps, rate, training.batch, training.seed, callback, search).run()
