"""`cavity fit --model latent`: an embedding of the columns of a table."""

import dataclasses
from typing import Any

import numpy as np

from cavity.cli.asked import Asked
from cavity.cli.fitting import AbstractFitting, estimator_of
from cavity.cli.gp import check_kernel
from cavity.cli.session import Session, blaming
from cavity.cli.table_parts import note_index
from cavity.estimators.embedding import GPEmbedding
from cavity.estimators.latent_map import check_rows_and_columns
from cavity.estimators.latent_settings import check_values, latent_kernel, latent_likelihood
from cavity.numerics.text import plural
from cavity.persistence.errors import DataError
from cavity.tables.embedding import TableEmbedding, learn_columns, outputs
from cavity.tables.embedding_files import EmbeddingFiles
from cavity.tables.files import read_table
from cavity.tables.schema import Schema


def check_hidden(asked: Asked, inputs: int) -> None:
    """A usage error for a kernel or likelihood that latent inputs or states do not take.

    Args:
        asked: what is asked for.
        inputs: of the functions.
    """
    check_kernel(asked["kernel"])
    with blaming("--kernel"):
        latent_kernel(asked["kernel"], inputs)
    with blaming("--likelihood"):
        latent_likelihood(asked["likelihood"])


class FitEmbedding(AbstractFitting[GPEmbedding, TableEmbedding]):
    """An embedding of columns."""

    def __init__(self, session: Session, asked: Asked):
        super().__init__(session, asked)
        self.schema = Schema((), ())
        self.Y = np.zeros((0, 0))

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.schema.targets]

    def check(self) -> None:
        """Raises a usage error for a kernel or likelihood that latent inputs do not take."""
        check_hidden(self.asked, self.asked["n_components"])

    def read(self) -> None:
        """Opens the table."""
        note_index(self.session, self.request.table)
        table = read_table(self.request.table)
        self.schema = learn_columns(table, self.asked["columns"] or (), self.asked["ignore"])
        self.Y = outputs(table, self.schema)
        _check_rows(self.asked, self.Y, self.names)

    def estimator(self) -> GPEmbedding:
        """The embedding that is asked for."""
        return estimator_of(self.asked, self.asked.family.task)

    def data(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The columns."""
        return (self.Y,), {}

    def saved(self, estimator: GPEmbedding) -> TableEmbedding:
        """Contents of the model file of a fitted estimator."""
        fitted = EmbeddingFiles().contents(estimator, self.schema, kept=estimator.kept())
        return dataclasses.replace(fitted, record=fitted.record | {"model": self.request.out})


def _check_rows(asked: Asked, Y: np.ndarray, names: list[str]) -> None:
    """Refuses tables that have too few rows, columns or values."""
    if len(Y) < 2:
        raise DataError(f"{asked.request.table} has one row, and an embedding needs two at least")
    called = [f"column '{name}'" for name in names]
    check_rows_and_columns(Y, called, first=1)
    likelihood = latent_likelihood(asked["likelihood"])
    check_values(Y, likelihood, called, first=1)
    varying = int(np.sum(np.nanmax(Y, axis=0) > np.nanmin(Y, axis=0)))
    dims = asked["n_components"]
    if dims > varying:
        constant = f" ({len(names) - varying} more are constant)" if varying < len(names) else ""
        raise DataError(
            f"--components {dims} is more than the {plural(varying, 'column')} to embed"
            f"{constant}; ask for fewer"
        )
