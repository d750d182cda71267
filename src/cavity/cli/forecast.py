"""`cavity fit --model state-space` and `cavity forecast`: time series with hidden states."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cavity.cli.chosen import check_power
from cavity.cli.fit import check_kernel, inducing_points
from cavity.cli.progress import progress
from cavity.cli.request import Request
from cavity.cli.session import (
    INTERRUPTED,
    Outcome,
    Session,
    blaming,
    patient_interrupts,
    refuse_overwriting,
    usage,
)
from cavity.cli.task import check_inducing_kind
from cavity.cli.text import describe_forecaster
from cavity.cli.use import quantile_levels
from cavity.estimators.forecaster import GPForecaster
from cavity.estimators.latent_settings import latent_kernel, latent_likelihood
from cavity.learning.optimisers.lbfgs import GracefulStop, Progress
from cavity.numerics.text import plural
from cavity.persistence import model_file as storage
from cavity.persistence.checkpoint import Checkpoint
from cavity.persistence.errors import DataError
from cavity.tables.files import ENDINGS, check_output, read_table, write_predictions
from cavity.tables.forecasting import TableForecaster, columns_of, learn_series
from cavity.tables.table_model import FORECASTER, parameters

# Options of fit that a time series has no use for, and what to say.
UNUSED = {
    "task": ("--task", "a time series is forecast, so it has no task: leave it out"),
    "test": ("--test", "forecasts are written by 'cavity forecast': leave it out"),
    "noise_column": ("--noise-column", "the noise of a time series is learned: leave it out"),
    "exposure_column": ("--exposure-column", "a time series takes no exposures: leave it out"),
    "drop_missing": ("--drop-missing", "missing cells are allowed in a time series: leave it out"),
    "batch_rows": ("--batch-rows", "a time series needs all rows in memory: leave it out"),
    "restarts": ("--restarts", "a time series is learned from several starts: leave it out"),
    "draws": ("--draws", "draws are made with --method mcmc only"),
    "columns": ("--column", "it is for embeddings: add --model latent"),
    "components": ("--components", "it is for embeddings; states are --state N"),
    "ignore": ("--ignore", "columns that are neither --target nor --control are left out anyway"),
    "layers": ("--layers", "it is for deep models: add --model deep"),
    "width": ("--width", "it is for deep models: add --model deep"),
    "steps": ("--steps", "it is for deep models, and of 'cavity forecast'"),
}


def check(request: Request) -> None:
    """A usage error for whatever is wrong before any file is opened."""
    for name, (option, message) in UNUSED.items():
        if getattr(request, name):
            raise usage(option, message)
    if not request.targets:
        raise usage("--target", "name at least one column to forecast")
    if request.method != Request.method:
        raise usage("--method", "a time series has one method: leave it out")
    if request.mean != Request.mean:
        raise usage("--mean", "the functions of a time series are about linear ones: leave it out")
    if request.inducing == "full":
        raise usage("--inducing", "a time series needs inducing points: a number, or auto")
    inducing_points(request.inducing)
    check_inducing_kind(request)
    check_power(request)
    check_kernel(request.kernel)
    with blaming("--kernel"):
        latent_kernel(request.kernel, states(request) + len(request.controls or ()))
    with blaming("--likelihood"):
        latent_likelihood(request.likelihood or GPForecaster.likelihood)
    if request.resume and request.checkpoint is None:
        raise usage("--resume", "it needs --checkpoint DIR, the folder to go on from")
    refuse_overwriting(request.out, table=request.table)


def states(request: Request) -> int:
    """The number of hidden states."""
    return 2 if request.states is None else request.states


def fit_series(session: Session, request: Request) -> Outcome:
    """Fits a state-space model to columns of a table, in the order of its rows, and writes it."""
    check(request)
    storage.check_output(request.out)
    checkpoint = None
    if request.checkpoint is not None:
        checkpoint = Checkpoint(request.checkpoint, resume=request.resume)
        checkpoint.open()
    table = read_table(request.table)
    schema = learn_series(table, request.targets or (), request.controls or ())
    y = columns_of(table, schema, schema.targets)
    X = columns_of(table, schema, schema.inputs)
    points = inducing_points(request.inducing)
    estimator = GPForecaster(
        n_states=states(request),
        kernel=request.kernel,
        likelihood=request.likelihood or GPForecaster.likelihood,
        n_inducing=GPForecaster.n_inducing if points == "auto" else points,
        power=request.used_power,
        max_iterations=request.max_iterations,
        random_state=request.seed,
    )
    interrupted = _learn(estimator, y, X if X.shape[1] else None, checkpoint)
    fitted = TableForecaster(estimator.time_map, schema, _record(estimator, request, y))
    fitted.save(request.out)
    if interrupted:
        session.note(f"interrupted; {request.out} holds the best model so far")
    elif not estimator.converged_:
        session.warn(f"not converged: {estimator.message_}")
    written = f"model written to {request.out} ({session.seconds:.1f} s)"
    text = f"{describe_forecaster(fitted)}\n\n{written}"
    return Outcome(fitted.record, text, INTERRUPTED if interrupted else 0)


def _learn(
    estimator: GPForecaster, y: np.ndarray, X: np.ndarray | None, checkpoint: Checkpoint | None
) -> bool:
    """Fits the estimator; whether that was interrupted."""
    with (
        patient_interrupts("the best model so far") as interrupted,
        progress(evidence=True) as show,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is said in our own way

        def callback(step: Progress) -> None:
            show(step)
            if interrupted():
                raise GracefulStop

        estimator.fit(y, X, callback=callback, checkpoint=checkpoint)
        return interrupted() or bool(estimator.interrupted_)


def _record(estimator: GPForecaster, request: Request, y: np.ndarray) -> dict[str, Any]:
    """How a time series was fitted, as JSON values."""
    return {
        "model": request.out,
        "task": FORECASTER,
        "likelihood": request.likelihood or GPForecaster.likelihood,
        "kernel": request.kernel,
        "power": request.used_power,
        "states": states(request),
        "targets": list(request.targets or ()),
        "controls": list(request.controls or ()),
        "n_inducing": estimator.time_map.posterior.transition.process.size,
        "n_rows": len(y),
        "missing": int(np.sum(np.isnan(y))),
        "converged": bool(estimator.converged_),
        "message": estimator.message_,
        "log_evidence": estimator.log_evidence_,
        "iterations": int(estimator.n_iter_),
        "last_state": estimator.states_[-1].tolist(),
        "parameters": parameters(estimator.model_, np.ones(1)),
    }


def forecast(
    session: Session,
    model: str,
    steps: int,
    out: str,
    *,
    controls: str | None = None,
    quantiles: str | None = None,
) -> Outcome:
    """Writes distributions of the rows that follow those of the fit."""
    levels = quantile_levels(quantiles)
    if Path(out).suffix.lower() not in ENDINGS:
        raise usage("--out", f"'{out}' must end in .csv or .parquet")
    refuse_overwriting(out, model=model, controls=controls)
    fitted = TableForecaster.load(model)
    check_output(out)
    X = _controls(fitted, controls, steps)
    mean, std = fitted.time_map.moments(steps, X)
    leaving = fitted.time_map.leaving(steps)
    if leaving is not None:
        session.warn(leaving)
    parts = {"mean": mean, "std": std}
    if levels:
        values = fitted.time_map.quantiles(steps, X, levels)
        parts |= {f"quantile_{p:g}": values[..., i] for i, p in enumerate(levels)}
    columns: dict[str, Any] = {"step": np.arange(1, steps + 1)}
    several = len(fitted.targets) > 1
    for name, part in parts.items():
        ending = [f"_{target}" if several else "" for target in fitted.targets]
        columns |= {f"{name}{end}": part[:, i] for i, end in enumerate(ending)}
    write_predictions(out, columns)
    record = {"model": model, "out": out, "steps": steps, "columns": [*columns]}
    text = f"forecast of {plural(steps, 'row')} written to {out}: {', '.join(columns)}"
    return Outcome(record, text)


def _controls(fitted: TableForecaster, table: str | None, steps: int) -> np.ndarray | None:
    """Controls of the rows of a forecast."""
    names = [column.name for column in fitted.schema.inputs]
    if not names:
        if table is not None:
            raise usage("--controls", "the model has none: leave it out")
        return None
    if table is None:
        raise usage("--controls", f"the model needs {', '.join(names)} for every row to come")
    X = columns_of(read_table(table), fitted.schema, fitted.schema.inputs)
    if len(X) < steps:
        raise DataError(
            f"{table} ends before the forecast does: {plural(len(X), 'row')} for "
            f"{plural(steps, 'step')}"
        )
    blank = np.argwhere(np.isnan(X[:steps]))
    if len(blank):
        row, column = blank[0]
        raise DataError(f"{table}: '{names[column]}' is missing in row {row + 1}; fill it in")
    return X[:steps]
