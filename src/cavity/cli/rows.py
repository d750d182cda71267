"""`cavity fit` for functions of rows: a table of inputs and targets, and scores on another."""

import dataclasses
from typing import Any, TypeVar

from cavity.cli.asked import Asked
from cavity.cli.engine_options import Watched
from cavity.cli.fitting import AbstractFitting, estimator_of
from cavity.cli.session import Session, blaming
from cavity.cli.table_parts import scores
from cavity.cli.task import check_likelihood, check_method, default_likelihood
from cavity.cli.training_tables import Tables, method_of, read
from cavity.estimators.base import AbstractPredictor
from cavity.estimators.registry import LIKELIHOODS
from cavity.families.values import one_of
from cavity.tables.row_source import Passes
from cavity.tables.rows_files import RowsFiles
from cavity.tables.table_model import TableModel

E = TypeVar("E", bound=AbstractPredictor)


class FitRows(AbstractFitting[E, TableModel]):
    """A regression or a classification, by the targets of the table."""

    def __init__(self, session: Session, asked: Asked):
        tasks = [*asked.family.estimators]
        if len(tasks) == 1:
            request = dataclasses.replace(asked.request, task=tasks[0])
            asked = dataclasses.replace(asked, request=request)
        super().__init__(session, asked)
        self._tables: Tables | None = None

    @property
    def tables(self) -> Tables:
        """The tables, once they are read."""
        assert self._tables is not None
        return self._tables

    @property
    def passes(self) -> Passes | None:
        """Told of passes over a long table."""
        return None if self.tables.long is None else self.tables.long.passes

    def end(self) -> None:
        """Drops the numbers of a long table."""
        if self._tables is not None and self._tables.long is not None:
            self._tables.long.table.drop()

    def check(self) -> None:
        """Raises a usage error for a task or likelihood that does not go with the rest."""
        request, likelihood = self.request, self.asked.given.get("likelihood")
        if likelihood is not None:
            with blaming("--likelihood"):
                one_of("the likelihood", likelihood, LIKELIHOODS)
        sides = (request.noise_column, request.exposure_column)
        check_likelihood(request.task, likelihood, request.targets or (), *sides)
        named = likelihood or (default_likelihood(request.task) if request.task else None)
        if named is not None:
            check_method(method_of(self.asked), named)

    def read(self) -> None:
        """Opens the tables."""
        self._tables = read(self.session, self.asked, self.engine)

    def estimator(self) -> E:
        """The estimator of the task that the target asks for."""
        tables = self.tables
        settings = {"likelihood": tables.likelihood} | self.settings()
        return estimator_of(self.asked, tables.task, **settings)

    def settings(self) -> dict[str, Any]:
        """Settings of the estimator that follow from the tables."""
        return {}

    def data(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Inputs and targets, and side data; of a long table a sample and the batches."""
        train, long = self.tables.train, self.tables.long
        assert train.y is not None
        y = train.y[:, 0] if train.y.shape[1] == 1 else train.y
        batches: dict[str, Any] = {} if long is None else {"batches": long.parts}
        if long is not None and self.engine is not None:
            batches["engine"] = Watched(self.engine, long.passes)
        weights = {} if train.weight is None else {"sample_weight": train.weight}
        return (self.tables.inputs, y), train.side | weights | batches

    def saved(self, estimator: E) -> TableModel:
        """Contents of the model file of a fitted estimator."""
        tables, files = self.tables, RowsFiles()
        moments = (tables.y_mean, tables.y_var)
        fitted = files.contents(
            estimator, tables.schema, moments, self.asked.family, kept=estimator.kept()
        )
        record = fitted.record | {"model": self.request.out, "n_rows": tables.rows}
        if tables.long is not None:
            record |= tables.long.record
        asked = {"column": self.request.weight_column}
        asked["classes"] = self.asked.given.get("class_weights")
        if any(asked.values()):
            record["weights"] = {name: value for name, value in asked.items() if value}
        return dataclasses.replace(fitted, record=record)

    def tested(self, saved: TableModel) -> TableModel | None:
        """The contents with scores on the test table, where there is one."""
        if self.tables.test is None:
            return None
        record = saved.record | {"test": scores(saved, self.tables.test)}
        return dataclasses.replace(saved, record=record)
