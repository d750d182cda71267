"""`cavity fit --model network`: options, the estimator, and what is remembered."""

from typing import Any

from cavity.cli.linear import iterations_of
from cavity.cli.request import Request
from cavity.cli.session import usage
from cavity.cli.training_tables import Tables
from cavity.estimators.network import NetworkClassifier, NetworkRegressor
from cavity.estimators.network_settings import AbstractNetworkSettings
from cavity.estimators.registry import REGRESSION
from cavity.tables.table_model import TableModel


def check_network(request: Request) -> None:
    """A usage error for what is no number of hidden units."""
    if request.units is not None:
        units_of(request.units)


def units_of(text: str) -> int | tuple[int, ...]:
    """The units of a hidden layer, or of several, as `--hidden` gives them."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise usage(
            "--hidden",
            f"'{text}' is not a number of units, such as 10, or one for each layer, such as 10,5",
        )
    widths = tuple(map(int, parts))
    return widths if widths[1:] else widths[0]


def network_estimator(request: Request, tables: Tables) -> NetworkRegressor | NetworkClassifier:
    """The estimator that a request for a network asks for.

    Args:
        request: what was asked for, checked.
        tables: what it is to be learned from.
    """
    classes = len(tables.schema.targets[0].categories)
    if classes > 2:
        raise usage(
            "--model",
            f"a network tells two classes apart, and the target has {classes}: leave --model out",
        )
    default = AbstractNetworkSettings
    prior = default.prior if request.prior is None else request.prior
    return (NetworkRegressor if tables.task == REGRESSION else NetworkClassifier)(
        hidden=default.hidden if request.units is None else units_of(request.units),
        prior=prior,
        likelihood=tables.likelihood,
        power=request.used_power,
        batch=request.batch,
        steps=default.steps if request.steps is None else request.steps,
        max_iterations=iterations_of(request, default),
        random_state=request.seed,
    )


def network_record(estimator: Any, fitted: TableModel) -> dict[str, Any]:
    """Entries of a network's record beyond those of all models, as JSON values.

    Args:
        estimator: the fitted one.
        fitted: the model.
    """
    return {
        "prior": estimator.prior,
        "hidden": estimator.hidden
        if isinstance(estimator.hidden, int)
        else list(estimator.hidden),
        "batch": estimator.batch,
        "steps": None if estimator.batch is None else estimator.steps,
        "relevance": dict(
            zip(fitted.schema.features, map(float, estimator.relevance_), strict=True)
        ),
    }
