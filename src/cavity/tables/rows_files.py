"""Estimators of functions of rows in model files."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.columns.encoder import Column
from cavity.estimators.kept import Kept, estimator_from
from cavity.estimators.registry import CLASSIFICATION, REGRESSION
from cavity.estimators.rows_of_fit import RowsOfFit
from cavity.families.base import Family, loaded
from cavity.learning.data.scales import Tallies, Tally
from cavity.persistence.typed_values import typed
from cavity.tables.class_labels import class_column, class_values, labels_of_type
from cavity.tables.contents import AbstractFiles, Held
from cavity.tables.records import rows_record
from cavity.tables.schema import Schema
from cavity.tables.table_model import TableModel

if TYPE_CHECKING:
    from cavity.estimators.base import AbstractPredictor
else:
    AbstractPredictor = Any  # a file is read for a command without scikit-learn


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
        family: Family | None = None,
        *,
        kept: Kept | None = None,
    ) -> TableModel:
        """Contents of the file of a fitted estimator.

        Args:
            estimator: fitted.
            schema: which columns of a table it reads; None for those that it knows itself.
            moments: means and variances of the outputs; None for those that it knows itself.
            family: that it was asked for as; None for its own.
            kept: what the file is to hold of it beside its posterior; None of what is no file.

        Raises:
            StorageError: for labels and powers that a file cannot hold.
        """
        family = estimator.family if family is None else family
        names = estimator._input_names
        given = schema is not None
        schema = schema_of(estimator) if schema is None else schema
        seen = estimator.rows_of_fit_.moments
        mean, var = (np.asarray(seen.mean), np.asarray(seen.var)) if moments is None else moments
        task = CLASSIFICATION if schema.targets[0].categories else REGRESSION
        record = rows_record(estimator, family, task, schema)
        posterior, scale = estimator.posterior_, estimator.output_scale_
        fitted = TableModel(posterior, schema, record, scale, mean, var)
        if family.record:
            record = record | loaded(family.record)(estimator, fitted)
        if kept is not None:
            # tables have names, and columns of text; labels of an array have a type of their own
            labels = None if given else estimator._class_labels
            kept = dataclasses.replace(kept, family=family.word).also(
                feature_names=schema.features if given or names is not None else None,
                encoded=not schema.encoder.plain if given else estimator.encoder_ is not None,
                labels=None if labels is None else str(labels.dtype),
            )
        tallies = _tallies(estimator, schema)
        return dataclasses.replace(fitted, record=record, tallies=tallies, kept=kept)

    def estimator(self, contents: TableModel, family: Family, kept: Kept) -> AbstractPredictor:
        """The estimator of a file; see `AbstractFiles`."""
        schema, record = contents.schema, contents.record
        encoder, count = schema.encoder, record.get("rows_seen", record["n_rows"])
        rows = np.full(len(contents.y_mean), float(count))
        moments = Tally(rows, contents.y_mean, rows * contents.y_var, np.abs(contents.y_mean))
        known: dict[str, Any] = {
            "n_features_in_": len(schema.features),
            "encoder_": encoder if typed(kept.fitted.get("encoded"), bool, "encoded") else None,
            "output_scale_": contents.output_scale,
            "tallies_": contents.tallies,
        }
        if kept.fitted.get("feature_names") is not None:
            known["feature_names_in_"] = np.array(schema.features, object)
        if contents.classes:
            (target,) = schema.targets
            kind = typed(kept.fitted.get("labels"), str | None, "labels")
            values = class_values(target.kind, target.categories)
            known["classes_"] = labels_of_type(values, kind)
        known["rows_of_fit_"] = RowsOfFit(
            encoder, contents.targets, moments, _sides(schema), schema.ranges
        )
        return estimator_from(family, record["task"], kept, contents.posterior, **known)


def schema_of(estimator: AbstractPredictor) -> Schema:
    """The columns of a table that an estimator reads, by the names of its data.

    Raises:
        StorageError: for labels that no column of a table holds.
    """
    rows, labels = estimator.rows_of_fit_, estimator._class_labels
    if labels is None:
        targets = tuple(Column(name, "numeric") for name in rows.targets)
    else:
        targets = (class_column(rows.targets[0], labels),)
    return Schema(
        inputs=rows.inputs.columns,
        targets=targets,
        noise_column=rows.sides.get("noise_variance"),
        exposure_column=rows.sides.get("exposure"),
        notations=rows.inputs.notations,
        ranges=rows.ranges,
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
