"""A fitted forecaster with all that is needed to go on from the last row of its table."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.columns import cells
from cavity.columns.column_types import evidence
from cavity.columns.encoder import Column
from cavity.columns.frames import DataFrame
from cavity.columns.notation import dates_in
from cavity.estimators.forecaster_settings import going_on
from cavity.estimators.kept import Kept
from cavity.estimators.latent_map import Standardised
from cavity.estimators.time_map import TimeMap
from cavity.families.values import one_of
from cavity.models.state_space.forecast import PROPAGATIONS, outputs_of_states
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.models.state_space.propagation import StateBelief
from cavity.numerics.text import quoted, shortened
from cavity.numerics.types import Array
from cavity.persistence.errors import DataError
from cavity.persistence.typed_values import Large, typed
from cavity.tables.contents import AbstractContents, Held
from cavity.tables.fit_records import (
    SeriesFit,
    check_names,
    check_posterior,
    check_task,
    described_by,
    numbers,
)
from cavity.tables.parameters import parameters
from cavity.tables.row_times import RowTimes
from cavity.tables.schema import Schema, need_column


class SeriesColumn(NamedTuple):
    """The column that tells the series of a table apart.

    Attributes:
        name: of the column.
        labels: what its cells hold, as text, in the order of the series of the fit.
    """

    name: str
    labels: tuple[str, ...]

    @staticmethod
    def of(table: DataFrame, name: str) -> "SeriesColumn":
        """The column of a table, its labels in the order in which they first come.

        Raises:
            DataError: for a column that is not there, and for a missing cell.
        """
        return SeriesColumn(name, tuple(dict.fromkeys(_labels(table, name))))

    def parts(self, table: DataFrame) -> list[DataFrame]:
        """The rows of each series, in the order of the table.

        Raises:
            DataError: for a column that is not there, a missing cell, and for series that are not
                among the labels.
        """
        cells = np.array(_labels(table, self.name), object)
        unknown = [label for label in dict.fromkeys(cells) if label not in self.labels]
        if unknown:
            raise DataError(
                f"{quoted(unknown[0])} in column {quoted(self.name)} is no series of the fit, "
                f"which were {', '.join(map(shortened, self.labels))}"
            )
        return [table[np.flatnonzero(cells == label)] for label in self.labels]

    def in_order(self, table: DataFrame) -> DataFrame:
        """The rows of one series after those of another; errors as `parts`."""
        import polars as pl

        return pl.concat(self.parts(table))


def _labels(table: DataFrame, name: str) -> list[str]:
    need_column(table.columns, name)
    cells = table[name].to_list()
    missing = [row for row, cell in enumerate(cells) if cell is None or cell != cell]
    if missing:
        raise DataError(
            f"'{name}' is missing in row {missing[0] + 1}: every row needs the name of its series"
        )
    return [str(cell) for cell in cells]


@dataclasses.dataclass(frozen=True, eq=False)
class TableForecaster(AbstractContents):
    """Contents of the command line's model files of a state-space model.

    Attributes:
        time_map: from future controls to future outputs.
        schema: which columns of a table the model reads: controls as its inputs, and targets.
        record: how it was fitted, by the names of `cavity fit --json`; all JSON values.
        marks: of the rows of the fit, by which they are known again.
        kept: the forecaster beside its posterior; None in files of before.
    """

    time_map: TimeMap
    schema: Schema
    record: dict[str, Any]
    marks: np.ndarray

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(column.name for column in self.schema.targets)

    @property
    def series(self) -> SeriesColumn | None:
        """The column that tells series apart; None where the table was of one."""
        column = self.record["series"]
        return (
            None if column is None else SeriesColumn(column, tuple(self.record["series_labels"]))
        )

    @property
    def times(self) -> RowTimes | None:
        """The times of the rows of the fit; None where it is not known which follow."""
        known = self.record.get("times")
        count = 1 if self.series is None else len(self.series.labels)
        return None if known is None else RowTimes.from_dict(known, count)

    @property
    def stored(self) -> tuple[Any, dict[str, Any]]:
        """The posterior, and what is said of it."""
        maps = self.time_map
        about = {
            "schema": self.schema.to_dict(),
            "record": {k: v for k, v in self.record.items() if k != "parameters"},
            "output_mean": maps.outputs.mean,
            "output_scale": maps.outputs.scale,
            "control_mean": maps.controls.mean,
            "control_scale": maps.controls.scale,
            "seed": maps.seed,
            "widening": maps.widening,
            "marks": self.marks,
        }
        return maps.posterior, about

    @classmethod
    def described(cls, held: Held) -> "TableForecaster":
        """The contents of what a file holds; see `AbstractContents`."""
        about, posterior = held.about, held.posterior
        check_task(held.path, about, "forecast")
        with described_by(held.path, about):
            schema = Schema.from_dict(about["schema"])
            record = typed(about["record"], SeriesFit, "record")
            check_names(record["targets"], schema.targets)
            check_names(record["controls"], schema.inputs)
            outputs, controls = (
                _standardised(about, name, len(columns))
                for name, columns in (("output", schema.targets), ("control", schema.inputs))
            )
            count = len(schema.inputs)
            states = check_posterior(posterior, StateSpacePosterior, count, _tried)
            several = record["series"] is not None
            seed = typed(about["seed"], Large, "seed")
            wide = about["widening"]
            if wide is not None:
                varying = int(np.sum(outputs.varying))
                wide = tuple(numbers(wide, "widening", varying, least=1.0).tolist())
            maps = TimeMap(
                states,
                outputs,
                controls,
                seed=seed,
                several=several,
                widening=wide,
                **_paths(held.kept),
            )
            known = np.array(typed(about["marks"], list[float], "marks"), float)
            record = record | {"parameters": parameters(states.model, np.ones(1))}
            found = TableForecaster(maps, schema, record, known, kept=held.kept)
            _ = found.times  # which refuses wrong ones
        return found


def _paths(kept: Kept | None) -> dict[str, Any]:
    """Arguments of forecasts, as the forecaster was asked."""
    if kept is None or "propagation" not in kept.settings:
        return {}
    asked = kept.settings["propagation"]
    if isinstance(asked, str):
        return going_on(one_of("propagation", asked, PROPAGATIONS))
    return going_on(typed(asked, Large, "propagation"))


def _tried(posterior: StateSpacePosterior, X: Array, _: object) -> Any:
    """Values that forecasts depend on: the next states, and the outputs of all."""
    chain, controls = posterior.chain, jnp.zeros((len(posterior.chain.mean), X.shape[1]))
    belief = StateBelief(chain.mean, chain.cov)
    return (
        posterior.transition.moments(posterior.transition.with_inputs(chain.mean, controls)),
        outputs_of_states(posterior.emission, belief, controls, posterior.outputs),
        chain.cross - chain.cov,
        posterior.series - chain.mean[:, 0],
    )


def _standardised(about: Mapping[str, Any], name: str, count: int) -> Standardised:
    """Standardisation of the outputs or the controls."""
    mean = numbers(about[f"{name}_mean"], f"{name}_mean", count)
    return Standardised(mean, numbers(about[f"{name}_scale"], f"{name}_scale", count, least=0.0))


def learn_series(table: DataFrame, targets: Sequence[str], controls: Sequence[str]) -> Schema:
    """Decides how the columns of a time series become numbers.

    Args:
        table: what `read_table` gives; its rows are in the order of time.
        targets: the columns to forecast.
        controls: the columns that are known ahead.

    Raises:
        DataError: for unknown columns, columns that are named twice, and columns without numbers.
    """
    chosen = [*targets, *controls]
    for name in chosen:
        need_column(table.columns, name)
        if chosen.count(name) > 1:
            raise DataError(f"column '{name}' is named twice among targets and controls")
    read = {name: evidence(table[name]) for name in chosen}
    kinds: dict[str, cells.Kind] = {name: column.kind() for name, column in read.items()}
    texts = [name for name in chosen if kinds[name] == "categorical"]
    if texts:
        raise DataError(
            f"column '{texts[0]}' holds text, and a time series is of numbers; name another"
        )
    notations = {name: column.notation() for name, column in read.items()}
    dates = [name for name in targets if name in dates_in(notations)]
    if dates:
        raise DataError(
            f"column '{dates[0]}' holds dates, and what is forecast are numbers; name another"
        )
    return Schema(
        inputs=tuple(Column(name, kinds[name]) for name in controls),
        targets=tuple(Column(name, kinds[name]) for name in targets),
        notations={name: n for name, n in notations.items() if n is not None},
    )
