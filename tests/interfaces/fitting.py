"""Fitted models for tests, by inference at fixed parameters."""

import dataclasses

import numpy as np
import polars as pl

import cavity
from cavity.interfaces.estimators import to_numpy
from cavity.interfaces.fitted import Fitted, parameters
from cavity.interfaces.schema import Encoded, encode, learn_schema


def fitted_to(
    table: pl.DataFrame, targets: list[str], kernel="rbf", n_inducing=None, noise_column=None
) -> tuple[Fitted, Encoded]:
    """A model of a table with unit parameters, and the table as numbers."""
    schema = learn_schema(table, targets, noise_column=noise_column)
    encoded = encode(table, schema)
    X, y = encoded.X, encoded.y
    parsed = cavity.kernels.parse(kernel, X.shape[1]) if isinstance(kernel, str) else kernel
    inducing = None if n_inducing is None else cavity.inducing.Points(X[:n_inducing])
    model = cavity.GP(parsed, cavity.likelihoods.Gaussian(0.1), inducing)
    rows = None if noise_column is None else {"noise_variance": encoded.noise}
    result = cavity.infer(model, X, y[:, 0] if y.shape[1] == 1 else y, rows=rows)
    posterior, scale = to_numpy(result.posterior), np.ones(y.shape[1])
    record = {
        "model": "model.cavity",
        "task": "regression",
        "likelihood": "gaussian",
        "kernel": kernel if isinstance(kernel, str) else "own",
        "method": "power_ep",
        "power": 0.5,
        "n_inducing": n_inducing,
        "n_rows": len(y),
        "inputs": [column.name for column in schema.inputs],
        "targets": targets,
        "classes": None,
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
    return Fitted(posterior, schema, record, scale, y.mean(axis=0), y.var(axis=0)), encoded
