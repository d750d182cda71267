"""`cavity fit --model linear`: options, the estimator, and what is remembered."""

from typing import Any

import numpy as np

from cavity.cli.request import Request
from cavity.cli.session import blaming
from cavity.cli.training_tables import Tables
from cavity.estimators.blocks import COLUMNS, category_blocks
from cavity.estimators.integrated import asked_parts
from cavity.estimators.linear import (
    AbstractLinearSettings,
    LinearClassifier,
    LinearRegressor,
)
from cavity.estimators.registry import REGRESSION
from cavity.models.integrated_parameters import ParameterMarginal, integrated_parameters
from cavity.tables.coefficients import model_coefficients, says_little, selected_columns
from cavity.tables.table_model import TableModel


def check_linear(request: Request) -> None:
    """A usage error for parts of a linear model that cannot be averaged over."""
    with blaming("--integrate"):
        asked_parts(_integrated(request))


def prior_of(request: Request) -> Any:
    """The name of the prior."""
    return AbstractLinearSettings.prior if request.prior is None else request.prior


def linear_estimator(request: Request, tables: Tables) -> LinearRegressor | LinearClassifier:
    """The estimator that a request for a linear model asks for.

    Args:
        request: what was asked for, checked.
        tables: what it is to be learned from.
    """
    return (LinearRegressor if tables.task == REGRESSION else LinearClassifier)(
        prior=prior_of(request),
        likelihood=tables.likelihood,
        power=request.used_power,
        blocks=_blocks_of(request, tables),
        integrate=_integrated(request),
        fit_intercept=request.mean != "zero",
        max_iterations=iterations_of(request, AbstractLinearSettings),
        random_state=request.seed,
    )


def iterations_of(request: Request, settings: Any) -> Any:
    """The iterations that were asked for, or those of the settings of an estimator."""
    asked = request.max_iterations
    return settings.max_iterations if asked == Request.max_iterations else asked


def _integrated(request: Request) -> Any:
    """The parts whose parameters are averaged over."""
    if request.integrate is None:
        return AbstractLinearSettings.integrate
    return request.integrate.split(",")


def _blocks_of(request: Request, tables: Tables) -> str | None:
    """Blocks of the features of each category, where they are to be zero together."""
    if not request.blocks:
        return None
    with blaming("--blocks"):
        category_blocks(tables.schema.encoder.widths, "tables with columns of categories")
    return COLUMNS


def linear_record(request: Request, fitted: TableModel) -> dict[str, Any]:
    """Entries of a linear model's record beyond those of all models, as JSON values.

    Args:
        request: what was asked for.
        fitted: the model.
    """
    table = model_coefficients(fitted)
    several = fitted.posterior.model.likelihood.latents > 1
    record: dict[str, Any] = {
        "prior": prior_of(request),
        "selected": selected_columns(table),
    }
    little = says_little(fitted)
    if little is not None:
        record["selection_message"] = little
    found = integrated_parameters(fitted.posterior)
    if found:
        record["integrated"] = {name: _of_marginal(one) for name, one in found.items()}
    return record | ({"coupled": False} if several else {})


def _of_marginal(marginal: ParameterMarginal) -> dict[str, Any]:
    """Median and ends of the central interval as JSON values."""
    ends = {"lower": marginal.lower, "median": marginal.median, "upper": marginal.upper}
    return {name: np.asarray(value).tolist() for name, value in ends.items()}
