"""Fitted models for tests, by inference at fixed parameters."""

import dataclasses

import numpy as np
import polars as pl

import cavity
from cavity.numerics.tree import to_numpy
from cavity.tables.roles import Roles, learn_schema, with_classes
from cavity.tables.schema import Encoded, encode
from cavity.tables.table_model import TableModel, parameters


def fitted_to(
    table: pl.DataFrame,
    targets: list[str],
    kernel="rbf",
    n_inducing=None,
    noise_column=None,
    likelihood=None,
) -> tuple[TableModel, Encoded]:
    """A model of a table with unit parameters, and the table as numbers.

    With a likelihood of labels it is one of classes.
    """
    likelihood = cavity.likelihoods.Gaussian(0.1) if likelihood is None else likelihood
    classes = likelihood.support is cavity.likelihoods.Support.LABELS
    schema = learn_schema(table, Roles(targets, noise_column=noise_column))
    schema = with_classes(schema, table) if classes else schema
    encoded = encode(table, schema)
    X, y = encoded.X, encoded.y
    parsed = cavity.kernels.parse(kernel, X.shape[1]) if isinstance(kernel, str) else kernel
    inducing = None if n_inducing is None else cavity.inducing.Points(X[:n_inducing])
    model = cavity.GP(parsed, likelihood, inducing)
    rows = None if noise_column is None else {"noise_variance": encoded.noise}
    result = cavity.infer(model, X, y[:, 0] if y.shape[1] == 1 else y, rows=rows)
    posterior, scale = to_numpy(result.posterior), np.ones(y.shape[1])
    record = {
        "model": "model.cavity",
        "task": "classification" if classes else "regression",
        "likelihood": type(likelihood).__name__.lower(),
        "kernel": kernel if isinstance(kernel, str) else "own",
        "method": "power_ep",
        "power": 0.5,
        "power_table": None,
        "bracket": None,
        "verdict": None,
        "n_inducing": n_inducing,
        "inducing_kind": None if n_inducing is None else "points",
        "n_rows": len(y),
        "inputs": [column.name for column in schema.inputs],
        "targets": targets,
        "classes": list(schema.targets[0].categories) or None,
        "converged": result.converged,
        "message": result.message,
        "log_evidence": float(result.log_evidence),
        "iterations": 0,
        "evaluations": 1,
        "jitter": float(result.jitter),
        "sites": dataclasses.asdict(result.sites),
        "parameters": parameters(posterior.model, scale, known_noise=posterior.known_noise),
        "test": None,
    }
    return TableModel(posterior, schema, record, scale, y.mean(axis=0), y.var(axis=0)), encoded
