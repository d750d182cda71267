"""Tied sites at fixed parameters: minimisation of the energy in the sites."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity.inference.energy import Sites
from cavity.learning.data.arrays import Data
from cavity.learning.data.batched import BatchedData
from cavity.learning.method import AbstractMethod
from cavity.learning.objectives.evidence import Objective
from cavity.learning.optimisers.adam import Adam
from cavity.learning.optimisers.checkpoint import Search
from cavity.learning.optimisers.lbfgs import Minimum, Progress, minimise
from cavity.models.base import AbstractModel
from cavity.parameters import FIXED, describe


def minimise_over_tied_sites(
    model: AbstractModel,
    data: Data | BatchedData,
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
    limits = {"max_iterations": training.iterations, "tolerance": training.tolerance}
    minimum = search(objective, objective.first, callback=None, kept=Search(), **limits)
    return objective, minimum


def search(
    objective: Objective,
    x: np.ndarray,
    *,
    max_iterations: int,
    tolerance: float,
    callback: Callable[[Progress], None] | None,
    kept: Search,
) -> Minimum:
    """Minimises an objective from `x`: by L-BFGS-B, or with minibatches by Adam."""
    training = objective.method.training
    if training.steps is None or not objective.has_tied:
        with kept.answers(objective) as fn:
            limits: dict[str, Any] = {"max_iterations": max_iterations, "tolerance": tolerance}
            return minimise(fn, x, bounds=objective.bounds, callback=callback, **limits)
    steps, rate = training.steps, training.learning_rate
    return Adam(objective, x, steps, rate, training.batch, training.seed, callback, kept).run()
