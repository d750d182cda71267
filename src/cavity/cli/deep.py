"""`cavity fit --model deep`: the estimator it asks for."""

from typing import Any

import numpy as np

from cavity.cli.request import Request
from cavity.cli.training_tables import Tables
from cavity.estimators.deep import AbstractDeepSettings, DeepGPClassifier, DeepGPRegressor
from cavity.estimators.layers import layers_of
from cavity.estimators.registry import REGRESSION
from cavity.models.base import AbstractModel


def deep_estimator(
    request: Request, tables: Tables, kernel: str, points: int | str | None
) -> DeepGPRegressor | DeepGPClassifier:
    """The estimator that a request for a deep model asks for.

    Args:
        request: what was asked for, checked.
        tables: what it is to be learned from.
        kernel: the kernel's text, with numbers for the names of columns.
        points: inducing points, or "auto".
    """
    default = AbstractDeepSettings
    return (DeepGPRegressor if tables.task == REGRESSION else DeepGPClassifier)(
        kernel=kernel,
        likelihood=tables.likelihood,
        n_layers=default.n_layers if request.layers is None else request.layers,
        width=default.width if request.width is None else request.width,
        n_inducing=default.n_inducing if points == "auto" else points,
        steps=default.steps if request.steps is None else request.steps,
        power=request.used_power,
        mean=request.mean,
        random_state=request.seed,
    )


def layer_records(model: AbstractModel) -> list[dict[str, Any]]:
    """Records of the layers of a deep model, as JSON values; none for other models."""
    return [
        {
            "width": layer.width,
            "n_inducing": next(inducing.size for _, inducing, _ in layer.groups),
            "noise_variance": None
            if layer.noise_variance is None
            else float(np.asarray(layer.noise_variance)),
        }
        for layer in layers_of(model)
    ]
