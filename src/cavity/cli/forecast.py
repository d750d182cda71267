"""`cavity fit --model state-space` and `cavity forecast`: time series with hidden states."""

import dataclasses
from typing import Any

import numpy as np

from cavity.cli.asked import Asked
from cavity.cli.fitting import AbstractFitting, estimator_of
from cavity.cli.latent import check_hidden
from cavity.cli.opened import opened_to_write
from cavity.cli.session import Outcome, Session, usage
from cavity.cli.table_parts import note_index
from cavity.cli.use import quantile_levels
from cavity.columns.frames import DataFrame
from cavity.estimators.forecaster import GPForecaster
from cavity.numerics.text import plural
from cavity.persistence.errors import DataError
from cavity.tables.files import read_table, write_predictions
from cavity.tables.forecasting import SeriesColumn, TableForecaster, learn_series
from cavity.tables.row_times import RowTimes, row_times
from cavity.tables.schema import Schema
from cavity.tables.series_files import SeriesFiles


class FitSeries(AbstractFitting[GPForecaster, TableForecaster]):
    """A state-space model of columns of a table, in the order of its rows."""

    def __init__(self, session: Session, asked: Asked):
        super().__init__(session, asked)
        self.schema = Schema((), ())
        self.series: SeriesColumn | None = None
        self.times: RowTimes | None = None
        self.labels: list[object] | None = None
        self.y = self.X = np.zeros((0, 0))

    def check(self) -> None:
        """Raises a usage error for a kernel or likelihood that states do not take."""
        check_hidden(self.asked, self.asked["n_states"] + len(self.asked["controls"]))

    def read(self) -> None:
        """Opens the table."""
        table, column = read_table(self.request.table, index=True), self.asked["series"]
        if column is not None:
            self.series = SeriesColumn.of(table, column)
            table = self.series.in_order(table)
            self.labels = table[column].to_list()
        self.schema = learn_series(table, self.asked["targets"], self.asked["controls"])
        self.y = self.schema.numbers_in(table, self.schema.targets)
        self.X = self.schema.numbers_in(table, self.schema.inputs)
        self._find_times(table)

    def _find_times(self, table: DataFrame) -> None:
        """Keeps the dates of the rows, of which forecasts have those that follow."""
        chosen = [
            *self.asked["targets"],
            *self.asked["controls"],
            *filter(None, [self.asked["series"]]),
        ]
        parts = [table] if self.series is None else self.series.parts(table)
        self.times, said = row_times(parts, chosen)
        if self.times is None or self.times.column:
            note_index(self.session, self.request.table)
        if said is not None:
            self.session.note(f"{self.request.table}: {said}")

    def estimator(self) -> GPForecaster:
        """The forecaster that is asked for."""
        return estimator_of(self.asked, self.asked.family.task)

    def data(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The targets, with controls and labels of series where there are some."""
        controls = self.X if self.X.shape[1] else None
        return (self.y,), {"X": controls, "series": self.labels}

    def saved(self, estimator: GPForecaster) -> TableForecaster:
        """Contents of the model file of a fitted estimator."""
        about = self.schema, self.series, self.times
        fitted = SeriesFiles().contents(estimator, *about, kept=estimator.kept())
        return dataclasses.replace(fitted, record=fitted.record | {"model": self.request.out})


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
    fitted: TableForecaster = opened_to_write(model, "forecast", out)
    X = _controls(fitted, controls, steps)
    future = fitted.time_map.forecast(steps, X)
    mean, std = future.moments()
    leaving = fitted.time_map.leaving(steps)
    for said in filter(None, (leaving, future.strayed)):
        session.warn(said)
    parts = {"mean": mean, "std": std}
    if levels:
        values = future.quantiles(levels)
        parts |= {f"quantile_{p}": values[..., i] for i, p in enumerate(levels)}
    columns: dict[str, Any] = {"step": np.arange(1, steps + 1)}
    if fitted.series is not None:
        name, labels = fitted.series
        columns = {name: np.repeat(labels, steps), "step": np.tile(columns["step"], len(labels))}
        parts = {n: part.reshape(-1, len(fitted.targets)) for n, part in parts.items()}
    if fitted.times is not None:
        taken = {*columns, *parts} & {fitted.times.name}
        name = f"{fitted.times.name}_of_row" if taken else fitted.times.name
        columns[name] = fitted.times.following(steps)
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
        return _following_controls(fitted, table, rows, steps)
    parts = zip(fitted.series.labels, fitted.series.parts(rows), strict=True)
    each = [
        _following_controls(fitted, f"{table}, {fitted.series.name} {label},", part, steps, number)
        for number, (label, part) in enumerate(parts)
    ]
    return np.stack(each)


def _following_controls(
    fitted: TableForecaster, name: str, rows: DataFrame, steps: int, series: int = 0
) -> np.ndarray:
    """Controls of the rows that follow those of a series, (steps, C): by dates, or the first."""
    if len(rows) < steps:
        raise DataError(
            f"{name} ends before the forecast does: {plural(len(rows), 'row')} for "
            f"{plural(steps, 'step')}"
        )
    places = np.arange(steps)
    if fitted.times is not None:
        places = fitted.times.places(name, rows, series, steps)
    X = fitted.schema.numbers_in(rows, fitted.schema.inputs)[places]
    blank = np.argwhere(np.isnan(X))
    if len(blank):
        row, column = blank[0]
        missing = fitted.schema.inputs[column].name
        raise DataError(f"{name}: '{missing}' is missing in row {places[row] + 1}; fill it in")
    return X
