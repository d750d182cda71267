"""`cavity fit --model deep`: what it takes, and the estimator it asks for."""

from typing import Any

import numpy as np

from cavity.cli.model_kinds import DEEP, MODELS, refuse_options_of_others
from cavity.cli.request import Request
from cavity.cli.session import usage
from cavity.cli.training_tables import Tables
from cavity.estimators.deep import AbstractDeepSettings, DeepGPClassifier, DeepGPRegressor
from cavity.estimators.layers import layers_of
from cavity.estimators.registry import REGRESSION, one_of
from cavity.models.base import AbstractModel


def check_model(request: Request) -> None:
    """A usage error for options that do not go with the kind of model."""
    try:
        one_of("the model", request.model, MODELS)
    except ValueError as error:
        raise usage("--model", str(error)) from None
    refuse_options_of_others(request)
    if not request.targets:
        raise usage("--target", "name at least one column to predict")
    if request.model != DEEP:
        return
    if request.method not in ("power_ep", "tied"):
        text = f"a deep model has one method, 'tied', not '{request.method}': leave --method out"
        raise usage("--method", text)
    if request.inducing == "full":
        raise usage("--inducing", "a deep model needs inducing points: a number, or auto")
    if request.restarts:
        raise usage("--restarts", "a deep model is learned once: leave it out")
    if request.max_iterations != Request.max_iterations:
        raise usage("--max-iterations", "a deep model is learned in steps: give --steps instead")
    if request.batch_rows is not None:
        raise usage("--batch-rows", "a deep model needs all rows in memory: leave it out")


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
