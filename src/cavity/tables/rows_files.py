"""Estimators of functions of rows in model files."""

import dataclasses
from typing import Any, cast

import numpy as np

from cavity.columns.encoder import Column
from cavity.estimators.base import AbstractPredictor
from cavity.estimators.kept import Kept, estimator_from
from cavity.estimators.registry import CLASSIFICATION, REGRESSION
from cavity.families.base import Family, loaded
from cavity.learning.data.scales import Tallies, Tally
from cavity.tables.class_labels import class_column, class_values
from cavity.tables.contents import AbstractFiles, Held
from cavity.tables.records import rows_record
from cavity.tables.schema import Schema
from cavity.tables.table_model import TableModel


class RowsFiles(AbstractFiles[AbstractPredictor, TableModel]):
    """Files of regressions and classifications."""

    def read(self, held: Held) -> TableModel:
        """Contents of a file; see `AbstractFiles`."""
        return TableModel.described(held)

    def contents(
        self,
        estimator: AbstractPredictor,
        schema: Schema | None = None,
        moments: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> TableModel:
        """Contents of the file of a fitted estimator.

        Args:
            estimator: fitted.
            schema: which columns of a table it reads; None for those that it knows itself.
            moments: means and variances of the outputs; None for those that it knows itself.

        Raises:
            StorageError: for labels and powers that a file cannot hold.
        """
        named = schema is not None or hasattr(estimator, "feature_names_in_")
        schema = schema_of(estimator) if schema is None else schema
        mean, var = estimator.output_moments if moments is None else moments
        task = CLASSIFICATION if schema.targets[0].categories else REGRESSION
        record = rows_record(estimator, task, schema)
        posterior, scale = estimator.posterior_, estimator.output_scale_
        fitted = TableModel(posterior, schema, record, scale, mean, var)
        if estimator.family.record:
            record = record | loaded(estimator.family.record)(estimator, fitted)
        tallies, kept = _tallies(estimator, schema), estimator.kept()
        kept = kept.also(feature_names=schema.features if named else None)
        return dataclasses.replace(fitted, record=record, tallies=tallies, kept=kept)

    def estimator(self, contents: TableModel, family: Family, kept: Kept) -> AbstractPredictor:
        """The estimator of a file; see `AbstractFiles`."""
        schema, record = contents.schema, contents.record
        encoder, count = schema.encoder, record.get("rows_seen", record["n_rows"])
        rows = np.full(len(contents.y_mean), float(count))
        moments = Tally(rows, contents.y_mean, rows * contents.y_var, np.abs(contents.y_mean))
        known: dict[str, Any] = {
            "n_features_in_": len(schema.features),
            "encoder_": None if encoder.plain else encoder,
            "output_scale_": contents.output_scale,
            "tallies_": contents.tallies,
        }
        if kept.fitted.get("feature_names") is not None:
            known["feature_names_in_"] = np.array(schema.features, object)
        if contents.classes:
            (target,) = schema.targets
            known["classes_"] = np.array(class_values(target.kind, target.categories))
        estimator = estimator_from(family, record["task"], kept, contents.posterior, **known)
        estimator.remember_rows(contents.targets, _sides(schema), moments, schema.ranges)
        return estimator


def schema_of(estimator: AbstractPredictor) -> Schema:
    """The columns of a table that an estimator reads, by the names of its data.

    Raises:
        StorageError: for labels that no column of a table holds.
    """
    encoder, names, asked = estimator.columns, estimator.target_names, cast(Any, estimator)
    if getattr(estimator, "classes_", None) is None:
        targets = tuple(Column(name, "numeric") for name in names)
    else:
        targets = (class_column(names[0], asked.classes_),)
    return Schema(
        inputs=encoder.columns,
        targets=targets,
        noise_column=estimator.side_columns.get("noise_variance"),
        exposure_column=estimator.side_columns.get("exposure"),
        notations=encoder.notations,
        ranges=estimator.input_ranges,
    )


def _sides(schema: Schema) -> dict[str, str]:
    """The columns of side data, by what they are."""
    both = {"noise_variance": schema.noise_column, "exposure": schema.exposure_column}
    return {name: column for name, column in both.items() if column is not None}


def _tallies(estimator: AbstractPredictor, schema: Schema) -> Tallies | None:
    """Counts and moments of the columns, for updates of inducing points."""
    known = estimator.tallies_
    if known is None:
        return None
    # of parts of images they are not those of columns
    return known if known[0].mean.shape == (len(schema.features),) else None
