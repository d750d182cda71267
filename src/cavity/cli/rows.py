"""`cavity fit` for functions of rows: a table of inputs and targets, and scores on another."""

import dataclasses
from typing import Any, TypeVar

from cavity.cli.asked import Asked
from cavity.cli.fitting import AbstractFitting, estimator_of, learning_record
from cavity.cli.session import Session, blaming
from cavity.cli.task import check_likelihood, check_method, default_likelihood
from cavity.cli.training_tables import Tables, method_of, read
from cavity.estimators.base import AbstractEstimator
from cavity.estimators.registry import LIKELIHOODS
from cavity.families.values import one_of
from cavity.learning.data.scales import Tallies
from cavity.models.mean_function import with_found_mean
from cavity.tables.row_cache import RowCache
from cavity.tables.schema import Schema
from cavity.tables.table_model import TableModel, diagnostics, parameters

E = TypeVar("E", bound=AbstractEstimator)


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
    def spool(self) -> RowCache | None:
        """The place of the numbers of a long table."""
        return self.tables.spool

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
        self._tables = read(self.session, self.asked)

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
        train = self.tables.train
        assert train.y is not None
        y = train.y[:, 0] if train.y.shape[1] == 1 else train.y
        batches = {} if self.spool is None else {"batches": self.tables.batches}
        return (self.tables.inputs, y), train.side | batches

    def kernel_in_words(self, estimator: E) -> str:
        """The kernel by names of columns, or the name of a family that has none."""
        return self.asked.family.name

    def saved(self, estimator: E) -> TableModel:
        """Contents of the model file of a fitted estimator."""
        tables = self.tables
        posterior, scale = estimator.posterior_, estimator.output_scale_
        record = self.record(estimator)
        fitted = TableModel(posterior, tables.schema, record, scale, tables.y_mean, tables.y_var)
        record |= self.further(estimator, fitted)
        return dataclasses.replace(fitted, record=record, tallies=self.tallies(estimator))

    def tallies(self, estimator: E) -> Tallies | None:
        """Counts and moments of the columns, for updates of inducing points."""
        return None if points_in(estimator) is None else estimator.tallies_

    def further(self, estimator: E, fitted: TableModel) -> dict[str, Any]:
        """Entries of the record that a family alone has, as JSON values."""
        return {}

    def record(self, estimator: E) -> dict[str, Any]:
        """Entries of the record that all fits of rows have, as JSON values."""
        tables, schema, posterior = self.tables, self.tables.schema, estimator.posterior_
        scale, points = estimator.output_scale_, points_in(estimator)
        record: dict[str, Any] = {
            "model": self.request.out,
            "task": tables.task,
            "likelihood": tables.likelihood,
            "kernel": self.kernel_in_words(estimator),
            "method": method_of(self.asked),
            "power": self.asked.values.get("power"),
            "power_table": None,
            "bracket": None,
            "verdict": None,
            "n_inducing": points,
            "inducing_kind": None
            if points is None
            else self.asked.values.get("inducing_kind", "points"),
            "n_rows": tables.rows,
            "inputs": [column.name for column in schema.inputs],
            "targets": [column.name for column in schema.targets],
            "classes": list(schema.targets[0].categories) or None,
            **learning_record(estimator),
            "parameters": parameters(
                with_found_mean(posterior), scale, known_noise=posterior.known_noise
            ),
            "test": None,
        }
        record |= _noticed(estimator, schema)
        if estimator.chains_ is not None:
            record["mcmc"] = diagnostics(estimator.chains_, posterior.model, scale)
        if schema.dates:
            record["dates"] = {name: dates.since for name, dates in schema.dates.items()}
        if tables.batches is not None:
            record["batches"] = tables.batch_count
        return record

    def tested(self, saved: TableModel) -> TableModel | None:
        """The contents with scores on the test table, where there is one."""
        if self.tables.test is None:
            return None
        record = saved.record | {"test": saved.metrics(self.tables.test)}
        return dataclasses.replace(saved, record=record)


def points_in(estimator: AbstractEstimator) -> int | None:
    """The number of inducing points, of the first part where there are several; None for none."""
    inducing = getattr(estimator, "inducing_", None)
    first = inducing[0] if isinstance(inducing, tuple) else inducing
    return None if first is None else first.size


def _noticed(estimator: AbstractEstimator, schema: Schema) -> dict[str, Any]:
    """Parameters of which the data say too little, where there are some, as JSON values."""
    record: dict[str, Any] = {}
    if estimator.undetermined_:
        record["undetermined"] = list(estimator.undetermined_)
    if estimator.at_bounds_:
        record["at_bounds"] = [dataclasses.asdict(bound) for bound in estimator.at_bounds_]
    if estimator.unseen_periods_:
        record["unseen_periods"] = [
            dataclasses.asdict(unseen) | {"column": schema.features[unseen.column]}
            for unseen in estimator.unseen_periods_
        ]
    return record
