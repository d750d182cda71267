"""What users give as data: arrays, batches, or a table in parts."""

from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.learning.data.arrays import prepare, without_columns
from cavity.learning.data.batched import BatchedData
from cavity.learning.data.batches import Batches, BatchSource, as_batches, refuse_side
from cavity.learning.data.parts import Parts
from cavity.learning.data.survey import survey
from cavity.learning.data.training_data import AbstractTrainingData
from cavity.learning.data.validation import (
    check_approximation,
    check_model,
    check_order,
    check_volume,
)
from cavity.learning.engines.base import AbstractEngine
from cavity.learning.methods.base import AbstractMethod
from cavity.models.base import AbstractModel


class Layout(NamedTuple):
    """Arguments of `infer` and `fit` that say how rows are used.

    Attributes:
        power: as in `infer`, like those that follow.
        blocks: labels of blocks.
        rows: side data.
        missing: "error" or "skip".
        engine: what works on parts of a table; None for this process.
    """

    power: ArrayLike = 0.5
    blocks: ArrayLike | None = None
    rows: Mapping[str, ArrayLike] | None = None
    missing: str = "error"
    engine: AbstractEngine | None = None


# What users give as X, with or without a y.
TrainingRows = ArrayLike | Batches | BatchSource | Parts | BatchedData


def in_memory(X: TrainingRows | None, y: ArrayLike | None) -> tuple[ArrayLike, ArrayLike]:
    """X and y where both are arrays.

    Raises:
        TypeError: for batches, and where X or y is missing.
    """
    if isinstance(X, Batches | Parts | BatchedData) and y is not None:
        raise TypeError("batches hold X and y both: leave y out")
    if X is None or y is None:
        raise TypeError(
            "every row is looked at many times, so that the rows must be in memory: give X and y"
        )
    return cast(ArrayLike, X), y


def arrays_alone(X: TrainingRows | None, y: ArrayLike | None) -> tuple[ArrayLike, ArrayLike]:
    """X and y where both are arrays, for what never takes batches.

    Raises:
        TypeError: for batches, and where X or y is missing.
    """
    return in_memory(X, None if isinstance(X, Batches | Parts | BatchedData) else y)


def _has_one_program(model: AbstractModel) -> bool:
    """True if power 1 has no closed form of its own, and shares the programs of those below it."""
    exact = model.likelihood.gaussian_noise is not None
    return exact and model.approximate and not (model.latent_rows or model.ordered)


def as_training_data(
    model: AbstractModel,
    X: TrainingRows | None,
    y: ArrayLike | None,
    method: AbstractMethod,
    layout: Layout,
) -> AbstractTrainingData:
    """The data that `infer` and `fit` were given: arrays, or batches in the place of both.

    Raises:
        ValueError: for unusable data, and for what batches are not for.
        TypeError: for data that are not numbers, batches that can be read only once, and float64
            data in 32-bit mode.
    """
    power, blocks, rows, missing, engine = layout
    check_model(model, blocks, method)
    check_volume(model, method, power)
    check_approximation(model, method)
    check_order(model, method, in_memory=y is not None or X is None)
    if not model.takes_inputs:
        X = without_columns(X, y, empty_rows=model.ordered)
    elif X is None:
        raise ValueError(f"{type(model).__name__} needs inputs: give X, one row for each of y")
    if y is not None:
        refuse_engine(engine)
        rows = model.row_data(rows, len(np.asarray(y)))
        data = prepare(*in_memory(X, y), power=power, blocks=blocks, rows=rows, missing=missing)
        model.check_power(data.rows, data.power, method.approximation)
        return data.with_power_traced() if _has_one_program(model) else data
    batches = X if isinstance(X, Parts | BatchedData) else as_batches(X)
    refuse_side(rows)
    if blocks is not None or np.ndim(power):
        raise ValueError(
            "batches have neither blocks nor a power per row: leave blocks=None, and give one "
            "power for all"
        )
    if not model.sparse:
        raise ValueError(
            "a full GP compares every row with all others and needs them in memory: give X and y, "
            "or a model with inducing variables"
        )
    approximation = method.approximation
    if approximation.hidden is not None:
        raise ValueError(
            "posteriors of hidden values have numbers for every row, so that the rows must be in "
            "memory: give X and y, or method=cavity.TiedPowerEP(batch=1000)"
        )
    check_streamed(model, method)
    if isinstance(batches, BatchedData):
        return batches
    return survey(batches, model.likelihood, power=power, missing=missing, engine=engine)


def check_streamed(model: AbstractModel, method: AbstractMethod) -> None:
    """Raises ValueError for a model whose rows need to be in memory."""
    approximation = method.approximation
    exact = approximation.closed_form and model.likelihood.gaussian_noise is not None
    at_mode = approximation.evaluation_point is EvaluationPoint.MODE
    one_by_one = method.solver.batch is not None or method.training.steps is not None
    if not (exact or approximation.tied) and (at_mode or one_by_one or model.latent_rows):
        raise ValueError(
            f"{type(method).__name__}() with these settings keeps a site for every row of the "
            f"likelihood {type(model.likelihood).__name__}, so that the rows must be in memory: "
            "give X and y, or method=cavity.PowerEP() or cavity.TiedPowerEP(batch=1000)"
        )


def refuse_engine(engine: AbstractEngine | None) -> None:
    """Raises ValueError for an engine beside rows in memory."""
    if engine is not None:
        raise ValueError(
            "an engine works on the parts of a table, and rows in memory have none: leave engine "
            "out, or give the rows as cavity.Parts([...])"
        )
