"""A fitted embedding with all that is needed to place, fill in and describe rows of a table."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.columns import cells
from cavity.columns.column_types import evidence
from cavity.columns.encoder import Column
from cavity.columns.frames import DataFrame
from cavity.columns.notation import dates_in
from cavity.estimators.latent_map import LatentMap, Standardised
from cavity.models.latent.posterior import LatentPosterior
from cavity.numerics.tree import named
from cavity.parameters import Units, units
from cavity.persistence.errors import DataError
from cavity.persistence.typed_values import WrongValue, typed
from cavity.tables.contents import AbstractContents, Held
from cavity.tables.fit_records import (
    MapFit,
    check_names,
    check_posterior,
    check_task,
    described_by,
    numbers,
)
from cavity.tables.parameters import parameters
from cavity.tables.schema import Schema, need_column


@dataclasses.dataclass(frozen=True, eq=False)
class TableEmbedding(AbstractContents):
    """Contents of the command line's model files of an embedding.

    Attributes:
        posterior: of the standardised columns that vary, its arrays numpy float64.
        schema: which columns of a table the model reads, as its targets.
        record: how it was fitted, by the names of `cavity fit --json`; all JSON values.
        standardised: how the columns are standardised.
        kept: the estimator beside its posterior; None in files of before.
    """

    posterior: LatentPosterior
    schema: Schema
    record: dict[str, Any]
    standardised: Standardised

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.schema.targets)

    @property
    def dims(self) -> int:
        """The number of latent dimensions."""
        return self.posterior.n_inputs

    @property
    def map(self) -> LatentMap:
        """From rows to latent points and back."""
        return LatentMap(self.posterior, self.standardised)

    @property
    def stored(self) -> tuple[Any, dict[str, Any]]:
        """The posterior, and what is said of it."""
        about = {
            "schema": self.schema.to_dict(),
            "record": {k: v for k, v in self.record.items() if k != "parameters"},
            "column_mean": self.standardised.mean,
            "column_scale": self.standardised.scale,
        }
        return self.posterior, about

    @classmethod
    def described(cls, held: Held) -> "TableEmbedding":
        """The contents of what a file holds; see `AbstractContents`."""
        check_task(held.path, held.about, "embedding")
        with described_by(held.path, held.about):
            return _embedding(held)


def _embedding(held: Held) -> TableEmbedding:
    """The embedding that a file describes."""
    posterior, about = held.posterior, held.about
    schema, record = Schema.from_dict(about["schema"]), typed(about["record"], MapFit, "record")
    count = len(schema.targets)
    check_names(record["columns"], schema.targets)
    mean = numbers(about["column_mean"], "column_mean", count)
    scale = numbers(about["column_scale"], "column_scale", count, least=0.0)
    latent = check_posterior(posterior, LatentPosterior, record["components"])
    columns = Standardised(mean, scale)
    if latent.outputs != np.sum(columns.varying) or len(record["relevance"]) != latent.n_inputs:
        raise WrongValue("its model has another number of columns than its table")
    if np.shape(latent.latent_mean) != np.shape(latent.latent_var) or np.ndim(latent.count):
        raise WrongValue("its latent points have means and variances of other shapes")
    values = latent_parameters(LatentMap(latent, columns))
    return TableEmbedding(latent, schema, record | {"parameters": values}, columns, kept=held.kept)


def latent_parameters(latent: LatentMap) -> dict[str, Any]:
    """The parameters of the functions by dotted name, of standardised columns, as JSON values.

    Those that latent dimensions have for themselves are in the order of their relevance.
    """
    model, order = latent.posterior.model, latent.order
    measured = named(units(model))

    def ordered(name: str, value: Any) -> Any:
        array, unit = np.asarray(value), measured[name]
        per_dimension = isinstance(unit, Units) and unit.input and array.ndim
        if per_dimension and array.shape[-1] == len(order):
            return array[..., order].tolist()
        return value

    return {
        name: ordered(name, value)
        for name, value in parameters(model, np.ones(1)).items()
        if not name.startswith("encoder.")
    }


# ------------------------------------------------------------------------- the table


def learn_columns(table: DataFrame, columns: Sequence[str], ignore: Sequence[str]) -> Schema:
    """Decides which columns of a table are embedded, and how they become numbers.

    Args:
        table: what `read_table` gives.
        columns: the columns to embed; none for all.
        ignore: columns to leave out.

    Raises:
        DataError: for unknown columns, columns that are named twice, and columns without numbers.
    """
    for name in (*columns, *ignore):
        need_column(table.columns, name)
        if [*columns, *ignore].count(name) > 1:
            raise DataError(f"column '{name}' is named twice among columns and ignored ones")
    chosen = [*columns] or [name for name in table.columns if name not in ignore]
    if not chosen:
        raise DataError("no column is left to embed: every column of the table is ignored")
    read = {name: evidence(table[name]) for name in chosen}
    notations = {name: column.notation() for name, column in read.items()}
    dated = [*dates_in(notations)]
    kinds: dict[str, cells.Kind] = {name: column.kind() for name, column in read.items()}
    texts = [name for name in chosen if kinds[name] == "categorical"]
    for names, what in ((texts, "text"), (dated, "dates or times")):
        if names:
            listed = ", ".join(f"'{name}'" for name in names[:5])
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            hold = "holds" if len(names) == 1 else "hold"
            ignored = " ".join(f"--ignore {name}" for name in names[:5])
            raise DataError(
                f"column {listed}{more} {hold} {what}, and an embedding is of numbers; leave "
                f"{'it' if len(names) == 1 else 'them'} out with {ignored}"
            )
    return Schema(
        inputs=(),
        targets=tuple(Column(name, kinds[name]) for name in chosen),
        ignored=tuple(ignore),
        notations={name: n for name, n in notations.items() if n is not None},
    )


def outputs(table: DataFrame, schema: Schema) -> np.ndarray:
    """The columns of an embedding as numbers, (N, P); see `Schema.numbers_in`."""
    return schema.numbers_in(table, schema.targets)
