"""`cavity fit --model latent`: an embedding of the columns of a table."""

import dataclasses
from typing import Any, cast

import numpy as np

from cavity.cli.fit import check_finite, inducing_points
from cavity.cli.hidden import check_hidden, learned, likelihood_of, opened_checkpoint
from cavity.cli.request import Request
from cavity.cli.session import INTERRUPTED, Outcome, Session
from cavity.cli.text import describe_embedding
from cavity.estimators.embedding import GPEmbedding
from cavity.estimators.latent_map import LatentMap, Standardised, check_rows_and_columns
from cavity.estimators.latent_settings import check_values, latent_likelihood
from cavity.models.latent.posterior import LatentPosterior
from cavity.numerics.text import plural
from cavity.persistence import model_file as storage
from cavity.persistence.errors import DataError
from cavity.report.convergence import unconverged
from cavity.tables.embedding import TableEmbedding, latent_parameters, learn_columns, outputs
from cavity.tables.files import read_table
from cavity.tables.table_model import EMBEDDING


def check(request: Request) -> None:
    """A usage error for whatever is wrong before any file is opened."""
    check_hidden(request, components(request))


def components(request: Request) -> int:
    """The number of latent dimensions."""
    return 2 if request.components is None else request.components


def fit_embedding(session: Session, request: Request) -> Outcome:
    """Fits an embedding to the columns of a table and writes it."""
    check(request)
    storage.check_output(request.out)
    kept = opened_checkpoint(request)
    table = read_table(request.table)
    schema = learn_columns(table, request.columns or (), request.ignore or ())
    Y = outputs(table, schema)
    names = [column.name for column in schema.targets]
    _check_rows(request, Y, names)
    points = inducing_points(request.inducing)
    estimator = GPEmbedding(
        n_components=components(request),
        kernel=request.kernel,
        likelihood=likelihood_of(request),
        n_inducing=GPEmbedding.n_inducing if points == "auto" else points,
        power=request.used_power,
        max_iterations=request.max_iterations,
        random_state=request.seed,
    )
    interrupted = learned(estimator, lambda show: estimator.fit(Y, callback=show, checkpoint=kept))
    check_finite(estimator)
    columns = Standardised(estimator.column_mean_, estimator.column_scale_)
    latent = LatentMap(cast(LatentPosterior, estimator.posterior_), columns)
    record = _record(estimator, latent, request, Y, names)
    fitted = TableEmbedding(latent.posterior, schema, record, columns)
    fitted.save(request.out)
    problem = unconverged(record)
    if interrupted:
        session.note(f"interrupted; {request.out} holds the best model so far")
        if kept is not None:
            session.note("the same command with --resume goes on from here")
    elif problem is not None:
        session.warn(f"not converged: {record['message']}. {problem.meaning}")
    written = f"model written to {request.out} ({session.seconds:.1f} s)"
    text = f"{describe_embedding(fitted)}\n\n{written}"
    return Outcome(record, text, INTERRUPTED if interrupted else 0)


def _check_rows(request: Request, Y: np.ndarray, names: list[str]) -> None:
    """Refuses tables that have too few rows, columns or values."""
    if len(Y) < 2:
        raise DataError(f"{request.table} has one row, and an embedding needs two at least")
    called = [f"column '{name}'" for name in names]
    check_rows_and_columns(Y, called, first=1)
    likelihood = latent_likelihood(likelihood_of(request))
    check_values(Y, likelihood, called, first=1)
    varying = int(np.sum(np.nanmax(Y, axis=0) > np.nanmin(Y, axis=0)))
    dims = components(request)
    if dims > varying:
        constant = f" ({len(names) - varying} more are constant)" if varying < len(names) else ""
        raise DataError(
            f"--components {dims} is more than the {plural(varying, 'column')} to embed"
            f"{constant}; ask for fewer"
        )


def _record(
    estimator: GPEmbedding, latent: LatentMap, request: Request, Y: np.ndarray, names: list[str]
) -> dict[str, Any]:
    """Record of the fit of an embedding, as JSON values."""
    scales = latent.columns.scale
    gaussian = likelihood_of(request) == "gaussian"
    return {
        "model": request.out,
        "task": EMBEDDING,
        "likelihood": likelihood_of(request),
        "kernel": request.kernel,
        "method": "power_ep" if gaussian else "tied",
        "power": request.used_power,
        "components": components(request),
        "n_inducing": latent.posterior.size,
        "n_rows": len(Y),
        "columns": names,
        "constant": [n for n, scale in zip(names, scales, strict=True) if scale == 0.0],
        "missing": int(np.sum(np.isnan(Y))),
        "relevance": estimator.relevance_.tolist(),
        "converged": bool(estimator.converged_),
        "message": estimator.message_,
        "log_evidence": estimator.log_evidence_,
        "iterations": int(estimator.n_iter_),
        "evaluations": int(estimator.n_evaluations_),
        "jitter": float(estimator.jitter_),
        "sites": dataclasses.asdict(estimator.sites_),
        "parameters": latent_parameters(latent),
    }
