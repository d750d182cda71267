"""`cavity fit --model linear`: options, the estimator, and what is remembered."""

from typing import Any

import numpy as np

from cavity.cli.model_kinds import LINEAR, refuse_unused
from cavity.cli.request import Request
from cavity.cli.session import blaming, usage
from cavity.cli.training_tables import Tables
from cavity.estimators.blocks import category_blocks
from cavity.estimators.categories import feature_groups
from cavity.estimators.integrated import asked_parts
from cavity.estimators.linear import (
    AbstractLinearSettings,
    LinearClassifier,
    LinearRegressor,
)
from cavity.estimators.registry import LIKELIHOODS, REGRESSION, named_likelihood, one_of
from cavity.learning.initialisation.linear import PRIORS
from cavity.models.integrated_parameters import ParameterMarginal, integrated_parameters
from cavity.tables.coefficients import model_coefficients, says_little, selected_columns
from cavity.tables.schema import Schema
from cavity.tables.table_model import TableModel

# Options of fit that linear models and networks have no use for, and what to say.
UNUSED = {
    "kernel": "{} has no kernel: leave it out",
    "method": "{} has one method, 'power_ep': leave it out",
    "inducing": "{} has no inducing points: leave it out",
    "restarts": "{} tries several starts anyway: leave it out",
    "batch_rows": "{} needs all rows in memory: leave it out",
}


def check_linear(request: Request) -> None:
    """A usage error for options that do not go with a linear model."""
    if request.model != LINEAR:
        return
    check_weights(request, "a linear model")
    if request.blocks and prior_of(request) == "laplace":
        raise usage("--blocks", "a Laplace prior is no scale mixture here: take another --prior")
    with blaming("--integrate"):
        asked_parts(_integrated(request))
    if request.mean == "linear":
        raise usage("--mean", "a linear model has an intercept, or with --mean zero none")


def check_weights(request: Request, called: str) -> None:
    """A usage error for options that do not go with a model of weights.

    Args:
        request: what was asked for.
        called: the model in words, such as "a linear model".
    """
    refuse_unused(request, {name: reason.format(called) for name, reason in UNUSED.items()})
    if request.prior is not None:
        with blaming("--prior"):
            one_of("the prior", request.prior, PRIORS)
    named = request.likelihood
    if named is None or LIKELIHOODS[named].task != REGRESSION:
        return
    if named_likelihood(named).latents > 1:
        reason = f"'{named}' has several functions: leave --model {request.model} out"
        raise usage("--likelihood", reason)


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
        groups=None if request.blocks else groups_of(tables, prior_of(request)),
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


def _widths(schema: Schema) -> list[int]:
    """The number of features of each input column."""
    return [column.width for column in schema.inputs]


def groups_of(tables: Tables, prior: Any) -> Any:
    """The groups of features, in which those of one category are together, for a prior."""
    return feature_groups(_widths(tables.schema), prior)


def _blocks_of(request: Request, tables: Tables) -> list[list[int]] | None:
    """The features of each category, where they are to be zero together."""
    if not request.blocks:
        return None
    with blaming("--blocks"):
        return category_blocks(_widths(tables.schema), "tables with columns of categories")


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
