"""Model files and records that `cavity fit` writes of a fitted estimator."""

import dataclasses
from typing import Any

from cavity.cli.chosen import chosen_power, class_form, grown_points
from cavity.cli.deep import layer_records
from cavity.cli.linear import linear_record
from cavity.cli.network import network_record
from cavity.cli.request import Request
from cavity.cli.training_tables import Tables
from cavity.estimators.base import AbstractEstimator
from cavity.estimators.classifier import GPClassifier
from cavity.estimators.regressor import GPRegressor
from cavity.families.deep import DEEP
from cavity.families.linear import LINEAR
from cavity.families.network import NETWORK
from cavity.models.mean_function import with_found_mean
from cavity.tables.schema import Schema
from cavity.tables.table_model import TableModel, diagnostics, parameters


def fitted_model(estimator: AbstractEstimator, request: Request, tables: Tables) -> TableModel:
    """Contents of the model file.

    Args:
        estimator: the fitted one.
        request: what was asked for, the kernel by the names of the columns.
        tables: what it was fitted to.
    """
    schema, deep = tables.schema, request.model == DEEP.name
    posterior, scale = estimator.posterior_, estimator.output_scale_
    inducing = getattr(estimator, "inducing_", None)  # of Gaussian processes
    layers = layer_records(posterior.model)
    first = inducing[0] if isinstance(inducing, tuple) else inducing
    record: dict[str, Any] = {
        "model": request.out,
        "task": tables.task,
        "likelihood": tables.likelihood,
        "kernel": request.kernel,
        "method": "tied" if deep or request.batch is not None else request.method,
        "power": request.used_power,
        "power_table": None,
        "bracket": None,
        "verdict": None,
        "n_inducing": None if first is None else first.size,
        "inducing_kind": None if first is None else request.inducing_kind,
        "n_rows": tables.rows,
        "inputs": [column.name for column in schema.inputs],
        "targets": [column.name for column in schema.targets],
        "classes": list(schema.targets[0].categories) or None,
        "converged": bool(estimator.converged_),
        "message": estimator.message_,
        "log_evidence": estimator.log_evidence_,
        "iterations": int(estimator.n_iter_),
        "evaluations": int(estimator.n_evaluations_),
        "jitter": float(estimator.jitter_),
        "sites": dataclasses.asdict(estimator.sites_),
        "parameters": parameters(
            with_found_mean(posterior), scale, known_noise=posterior.known_noise
        ),
        "test": None,
    }
    if layers:
        record["layers"] = layers
    record |= _noticed(estimator, schema)
    if estimator.chains_ is not None:
        record["mcmc"] = diagnostics(estimator.chains_, posterior.model, scale)
    if isinstance(estimator, GPRegressor | GPClassifier):
        record |= {"priors": estimator.priors}
        record |= chosen_power(estimator) | grown_points(estimator)
    if isinstance(estimator, GPClassifier):
        record |= class_form(estimator, request.method)
    if schema.dates:
        record["dates"] = {name: dates.since for name, dates in schema.dates.items()}
    if tables.batches is not None:
        record["batches"] = tables.batch_count
    fitted = TableModel(posterior, schema, record, scale, tables.y_mean, tables.y_var)
    if not (layers or first is None):
        fitted = dataclasses.replace(fitted, tallies=estimator.tallies_)
    if request.model == LINEAR.name:
        record |= linear_record(request, fitted)
    if request.model == NETWORK.name:
        record |= network_record(estimator, fitted)
    return dataclasses.replace(fitted, record=record)


def _noticed(estimator: AbstractEstimator, schema: Schema) -> dict[str, Any]:
    """Parameters of which the data say too little, where there are some, as JSON values."""
    record: dict[str, Any] = {}
    if estimator.undetermined_:
        record["undetermined"] = list(estimator.undetermined_)
    if estimator.at_bounds_:
        record["at_bounds"] = [dataclasses.asdict(bound) for bound in estimator.at_bounds_]
    if estimator.unseen_periods_:
        record["unseen_periods"] = [
            dataclasses.asdict(unseen) | {"column": schema.features[unseen.column]}
            for unseen in estimator.unseen_periods_
        ]
    return record
