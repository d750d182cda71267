"""Forecasters in model files."""

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.columns.encoder import Column
from cavity.estimators.kept import Kept, estimator_from
from cavity.families.base import Family
from cavity.tables.contents import AbstractFiles, Held
from cavity.tables.forecasting import SeriesColumn, TableForecaster
from cavity.tables.known_rows import marks
from cavity.tables.parameters import parameters
from cavity.tables.records import kernel_in_words, likelihood_word
from cavity.tables.row_times import RowTimes, times_of_index
from cavity.tables.schema import Schema

if TYPE_CHECKING:
    from cavity.estimators.forecaster import GPForecaster
else:
    GPForecaster = Any

# The column that tells series apart, of a forecaster that was not fitted to a table.
SERIES = "series"


class SeriesFiles(AbstractFiles[GPForecaster, TableForecaster]):
    """Files of time series."""

    def read(self, held: Held) -> TableForecaster:
        """Contents of a file; see `AbstractFiles`."""
        return TableForecaster.described(held)

    def contents(
        self,
        estimator: GPForecaster,
        schema: Schema | None = None,
        series: SeriesColumn | None = None,
        times: RowTimes | None = None,
        *,
        kept: Kept | None = None,
    ) -> TableForecaster:
        """Contents of the file of a fitted forecaster.

        Args:
            estimator: fitted.
            schema: which columns of a table it reads; None for those that it knows itself.
            series: the column that tells series apart; None for what the forecaster knows.
            times: of the rows; None for what the forecaster knows.
            kept: what the file is to hold of it beside its posterior; None of what is no file.
        """
        data, outputs, controls = estimator.rows_and_names
        if schema is None:
            schema = Schema(_numeric(controls), _numeric(outputs))
        if series is None and data.names is not None:
            series = SeriesColumn(SERIES, tuple(map(str, data.names)))
        known = marks(np.hstack([data.y, data.X]))
        times = times_of_index(data.index) if times is None else times
        record = _record(estimator, schema, series)
        record["times"] = None if times is None else times.to_dict()
        return TableForecaster(estimator.time_map, schema, record, known, kept=kept)

    def estimator(self, contents: TableForecaster, family: Family, kept: Kept) -> GPForecaster:
        """The forecaster of a file; see `AbstractFiles`."""
        maps = contents.time_map
        known: dict[str, Any] = {
            "y_mean_": maps.outputs.mean,
            "y_scale_": maps.outputs.scale,
            "X_mean_": maps.controls.mean,
            "X_scale_": maps.controls.scale,
        }
        return estimator_from(family, family.task, kept, maps.posterior, **known)


def _numeric(names: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(name, "numeric") for name in names)


def _record(
    estimator: GPForecaster, schema: Schema, series: SeriesColumn | None
) -> dict[str, Any]:
    """Record of the fit of a time series, as JSON values."""
    simulated, data = estimator.free_simulation_, estimator.rows_and_names[0]
    return {
        "model": None,
        "task": estimator.family.task,
        "likelihood": likelihood_word(estimator.likelihood, 2),
        "kernel": kernel_in_words(estimator.kernel),
        "method": "tied" if estimator.hidden == "tied" else "power_ep",
        "power": float(estimator.power),
        "states": estimator.states_.shape[1],
        "targets": [column.name for column in schema.targets],
        "controls": [column.name for column in schema.inputs],
        "series": None if series is None else series.name,
        "series_labels": None if series is None else list(series.labels),
        "n_inducing": estimator.time_map.posterior.transition.process.size,
        "n_rows": len(data.y),
        "missing": int(np.sum(np.isnan(data.y))),
        "converged": bool(estimator.converged_),
        "message": estimator.message_,
        "log_evidence": estimator.log_evidence_,
        "growth": estimator.growth_,
        "free_simulation": None if simulated is None else simulated.to_dict(),
        "iterations": int(estimator.n_iter_),
        "last_state": estimator.states_[-1].tolist(),
        "parameters": parameters(estimator.model_, np.ones(1)),
    }
