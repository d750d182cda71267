"""`cavity fit --model state-space` and `cavity forecast`: time series with hidden states."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli.fit import inducing_points
from cavity.cli.hidden import check_hidden, learned, likelihood_of, opened_checkpoint
from cavity.cli.request import Request
from cavity.cli.session import INTERRUPTED, Outcome, Session, usage
from cavity.cli.text import describe_forecaster
from cavity.cli.use import quantile_levels
from cavity.estimators.forecaster import GPForecaster
from cavity.numerics.text import plural
from cavity.persistence import model_file as storage
from cavity.persistence.errors import DataError
from cavity.tables.files import ENDINGS, check_output, read_table, write_predictions
from cavity.tables.forecasting import SeriesColumn, TableForecaster, columns_of, learn_series
from cavity.tables.known_rows import marks
from cavity.tables.table_model import FORECASTER, parameters

if TYPE_CHECKING:
    from polars import DataFrame
else:
    DataFrame = Any


def check(request: Request) -> None:
    """A usage error for whatever is wrong before any file is opened."""
    check_hidden(request, states(request) + len(request.controls or ()))


def states(request: Request) -> int:
    """The number of hidden states."""
    return 2 if request.states is None else request.states


def fit_series(session: Session, request: Request) -> Outcome:
    """Fits a state-space model to columns of a table, in the order of its rows, and writes it."""
    check(request)
    storage.check_output(request.out)
    checkpoint = opened_checkpoint(request)
    table = read_table(request.table)
    series = None if request.series is None else SeriesColumn.of(table, request.series)
    if series is not None:
        table = series.in_order(table)
    schema = learn_series(table, request.targets or (), request.controls or ())
    y = columns_of(table, schema, schema.targets)
    X = columns_of(table, schema, schema.inputs)
    points = inducing_points(request.inducing)
    estimator = GPForecaster(
        n_states=states(request),
        kernel=request.kernel,
        likelihood=likelihood_of(request),
        n_inducing=GPForecaster.n_inducing if points == "auto" else points,
        hidden="tied" if request.method == "tied" else "chain",
        power=request.used_power,
        n_restarts=request.restarts,
        max_iterations=request.max_iterations,
        random_state=request.seed,
    )
    labels = None if series is None else table[series.name].to_list()
    given: dict[str, Any] = {"X": X if X.shape[1] else None, "series": labels}
    given["checkpoint"] = checkpoint
    interrupted = learned(estimator, lambda show: estimator.fit(y, callback=show, **given))
    record = _record(estimator, request, y, series)
    fitted = TableForecaster(estimator.time_map, schema, record, marks(np.hstack([y, X])))
    fitted.save(request.out)
    if interrupted:
        session.note(f"interrupted; {request.out} holds the best model so far")
    elif not estimator.converged_:
        session.warn(f"not converged: {estimator.message_}")
    written = f"model written to {request.out} ({session.seconds:.1f} s)"
    text = f"{describe_forecaster(fitted)}\n\n{written}"
    return Outcome(fitted.record, text, INTERRUPTED if interrupted else 0)


def _record(
    estimator: GPForecaster, request: Request, y: np.ndarray, series: SeriesColumn | None
) -> dict[str, Any]:
    """Record of the fit of a time series, as JSON values."""
    simulated = estimator.free_simulation_
    return {
        "model": request.out,
        "task": FORECASTER,
        "likelihood": likelihood_of(request),
        "kernel": request.kernel,
        "method": request.method,
        "power": request.used_power,
        "states": states(request),
        "targets": list(request.targets or ()),
        "controls": list(request.controls or ()),
        "series": None if series is None else series.name,
        "series_labels": None if series is None else list(series.labels),
        "n_inducing": estimator.time_map.posterior.transition.process.size,
        "n_rows": len(y),
        "missing": int(np.sum(np.isnan(y))),
        "converged": bool(estimator.converged_),
        "message": estimator.message_,
        "log_evidence": estimator.log_evidence_,
        "growth": estimator.growth_,
        "free_simulation": None if simulated is None else simulated.to_dict(),
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
    fitted = TableForecaster.load(model)
    check_output(out)
    X = _controls(fitted, controls, steps)
    future = fitted.time_map.forecast(steps, X)
    mean, std = future.moments()
    leaving = fitted.time_map.leaving(steps)
    for said in filter(None, (leaving, future.strayed)):
        session.warn(said)
    parts = {"mean": mean, "std": std}
    if levels:
        values = future.quantiles(levels)
        parts |= {f"quantile_{p:g}": values[..., i] for i, p in enumerate(levels)}
    columns: dict[str, Any] = {"step": np.arange(1, steps + 1)}
    if fitted.series is not None:
        name, labels = fitted.series
        columns = {name: np.repeat(labels, steps), "step": np.tile(columns["step"], len(labels))}
        parts = {n: part.reshape(-1, len(fitted.targets)) for n, part in parts.items()}
    several = len(fitted.targets) > 1
    for name, part in parts.items():
        ending = [f"_{target}" if several else "" for target in fitted.targets]
        columns |= {f"{name}{end}": part[:, i] for i, end in enumerate(ending)}
    write_predictions(out, columns)
    record = {"model": model, "out": out, "steps": steps, "columns": [*columns]}
    record |= {"paths_left": future.left} if future.left else {}
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
    rows = read_table(table)
    if fitted.series is None:
        return _first_controls(fitted, table, rows, steps)
    parts = zip(fitted.series.labels, fitted.series.parts(rows), strict=True)
    each = [
        _first_controls(fitted, f"{table}, {fitted.series.name} {label},", part, steps)
        for label, part in parts
    ]
    return np.stack(each)


def _first_controls(fitted: TableForecaster, name: str, rows: DataFrame, steps: int) -> np.ndarray:
    """Controls of the first rows of a table, (steps, C)."""
    if len(rows) < steps:
        raise DataError(
            f"{name} ends before the forecast does: {plural(len(rows), 'row')} for "
            f"{plural(steps, 'step')}"
        )
    X = columns_of(rows, fitted.schema, fitted.schema.inputs)
    blank = np.argwhere(np.isnan(X[:steps]))
    if len(blank):
        row, column = blank[0]
        missing = fitted.schema.inputs[column].name
        raise DataError(f"{name}: '{missing}' is missing in row {row + 1}; fill it in")
    return X[:steps]
