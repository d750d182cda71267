"""A fitted model with all that is needed to predict, judge and describe it without its data."""

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from cavity.estimators.predictions import (
    Predictions,
    class_log_probabilities,
    function_of,
    predict_outputs,
)
from cavity.learning.data.scales import Tallies
from cavity.learning.double_precision import in_double
from cavity.learning.infer import NumericalError
from cavity.learning.metrics.classification import ClassSums, classification_sums
from cavity.learning.metrics.regression import (
    LEVELS,
    RegressionSums,
    Scores,
    average_metrics,
    regression_sums,
)
from cavity.learning.streaming.record import as_tallies, described
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.models.mean_function import with_found_mean
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.text import plural
from cavity.numerics.tree_sum import summed
from cavity.persistence.errors import DataError
from cavity.persistence.typed_values import WrongValue, typed
from cavity.tables.contents import AbstractContents, Held
from cavity.tables.fit_records import (
    Counts,
    Memory,
    TableFit,
    check_posterior,
    check_tallies,
    check_targets_of,
    check_task,
    described_by,
    numbers,
)
from cavity.tables.parameters import parameters
from cavity.tables.schema import Encoded, Schema

# Rows whose distributions are tabulated at a time.
PART = 4_000
# Scales are larger.
SMALLEST = float(np.finfo(float).tiny)

S = TypeVar("S", RegressionSums, ClassSums)


@dataclasses.dataclass(frozen=True, eq=False)
class Judged(Generic[S]):
    """Sums over rows of which the metrics of a model are made.

    Their size does not grow with the rows, but for two classes: see `Ranking`.

    Attributes:
        targets: for each target.
    """

    targets: tuple[S, ...]

    def __add__(self, later: "Judged[S]") -> "Judged[S]":
        pairs = zip(self.targets, later.targets, strict=True)
        return Judged(tuple(before + after for before, after in pairs))


@dataclasses.dataclass(frozen=True, eq=False)
class TableModel(AbstractContents):
    """Contents of the command line's model files.

    Attributes:
        posterior: the posterior process of the outputs divided by `output_scale`, its arrays
            numpy float64.
        schema: which columns of a table the model reads.
        record: how it was fitted, by the names of `cavity fit --json`; all JSON values.
        output_scale: divisor of each output, (P,).
        y_mean: mean of each training target, (P,), in the units of the data.
        y_var: variance of each training target, (P,).
        memory: rows that `cavity update` keeps in memory, and the messages of all others; JSON
            values.
        tallies: counts and moments of the columns, for updates; None for models that are not
            updated.
        kept: the estimator beside its posterior; None in files of before.
    """

    posterior: AbstractPosterior
    schema: Schema
    record: dict[str, Any]
    output_scale: np.ndarray
    y_mean: np.ndarray
    y_var: np.ndarray
    memory: Mapping[str, Any] | None = None
    tallies: Tallies | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(column.name for column in self.schema.targets)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; none of a regression."""
        return self.schema.targets[0].categories

    @property
    def normal(self) -> bool:
        """True if predictive distributions are normal."""
        return capability(self.posterior.model.likelihood, GaussianInLatent) is not None

    @property
    def powered(self) -> bool:
        """True if the power had any effect on the fit."""
        sparse = self.record["n_inducing"] is not None
        if self.record["likelihood"] == "gaussian":
            return sparse
        by = self.record["method"]
        return by in ("power_ep", "tied") or (sparse and by in ("laplace", "local_bound"))

    @in_double
    def predictive(
        self, X: np.ndarray, side: Mapping[str, np.ndarray] | None = None
    ) -> Predictions:
        """The predictive distribution of the targets of a regression, in the units of the data.

        Args:
            X: inputs, (n, D), as `schema.encode` makes them.
            side: side data of the rows, where the model was fitted with them.

        Raises:
            NumericalError: if a prediction is not finite. Deviations may be infinite.
        """
        out = predict_outputs(self.posterior, self.output_scale, X, side or {})
        good = np.isfinite(out.mean) & ~np.isnan(out.std)
        if not np.all(np.isfinite(out.std)):
            good &= self._known(X)  # an infinite deviation is the likelihood's, or an overflow
        _check_good(np.all(good, axis=1))
        return out

    def _known(self, X: np.ndarray) -> np.ndarray:
        """True where the variance of the function is finite, (n, P)."""
        var = np.asarray(function_of(self.posterior).marginals(np.asarray(X, float)).var)
        return np.isfinite(var).reshape(len(X), -1)

    def log_probabilities(self, X: np.ndarray) -> np.ndarray:
        """Log probabilities of the classes, (n, C).

        Args:
            X: inputs, (n, D), as `schema.encode` makes them.

        Raises:
            NumericalError: if a prediction is not finite.
        """
        found = class_log_probabilities(self.posterior, X, len(self.classes))
        _check_good(~np.any(np.isnan(found), axis=1))
        return found

    def metrics(self, table: Encoded | Iterable[Encoded]) -> dict[str, Any]:
        """Scores of the predictions of a table, by the names of `cavity evaluate --json`.

        With several targets these are means over them, and `per_target` has those of each. Rows
        count by their weights. Of a table in parts sums are kept, and no part; they are added
        as `AbstractEngine.sum` adds them.

        Raises:
            DataError: for a target that the likelihood does not take, and for no rows.
            NumericalError: if a prediction is not finite.
        """
        parts = [table] if isinstance(table, Encoded) else table
        found = (self.judged(part) for part in parts)
        return self.metrics_of(summed(found, operator.add))

    def metrics_of(self, sums: "Judged | None") -> dict[str, Any]:
        """The scores that sums give, as `metrics` has them.

        Args:
            sums: of all rows, as `judged` gives them for a part; None where there are no rows.

        Raises:
            DataError: for no rows.
        """
        if sums is None:
            raise DataError("every row has weight 0: there is nothing to judge predictions by")
        each = [target.metrics() for target in sums.targets]
        if len(each) == 1:
            return dict(each[0])
        named_each = dict(zip(self.targets, each, strict=True))
        return {**average_metrics(each), "per_target": named_each}

    def judged(self, table: Encoded) -> "Judged | None":
        """What is added over the rows of a table to judge predictions; None without rows.

        Raises:
            DataError: for a target that the likelihood does not take.
            NumericalError: if a prediction is not finite.
        """
        if not len(table.X):
            return None
        assert table.y is not None
        if self.classes:
            found = self.log_probabilities(table.X)
            return Judged((classification_sums(table.y[:, 0], found, table.weight),))
        check_targets(self.posterior.model.likelihood, self.targets, table)
        out = self.predictive(table.X, table.side)
        columns = (a.T for a in (table.y, out.mean, out.std, out.log_density(table.y)))
        moments = (self.y_mean, self.y_var, self._scores(table))
        return Judged(
            tuple(
                regression_sums(*each, weights=table.weight)
                for each in zip(*columns, *moments, strict=True)
            )
        )

    def _scores(self, table: Encoded) -> list[Scores | None]:
        """Row by row scores of each target, None where predictions are normal."""
        if self.normal:
            return [None] * len(self.targets)
        found = [self._scores_of(table, slice(i, i + PART)) for i in range(0, len(table.X), PART)]
        return [_joined(parts) for parts in zip(*found, strict=True)]

    def _scores_of(self, table: Encoded, part: slice) -> list[Scores]:
        assert table.y is not None
        side = {name: values[part] for name, values in table.side.items()}
        tables = self.predictive(table.X[part], side).numerical_predictive()
        return [
            Scores(t.crps(y), {level: t.within(y, level) for level in LEVELS})
            for t, y in zip(tables, table.y[part].T, strict=True)
        ]

    @property
    def stored(self) -> tuple[Any, dict[str, Any]]:
        """The posterior, and what is said of it."""
        about = {
            "schema": self.schema.to_dict(),
            "record": {k: v for k, v in self.record.items() if k != "parameters"},
            "output_scale": self.output_scale,
            "y_mean": self.y_mean,
            "y_var": self.y_var,
        }
        about |= {} if self.memory is None else {"memory": self.memory}
        about |= {} if self.tallies is None else {"tallies": described(self.tallies)}
        return self.posterior, about

    @classmethod
    def described(cls, held: Held) -> "TableModel":
        """The contents of what a file holds; see `AbstractContents`."""
        posterior, about = held.posterior, held.about
        check_task(held.path, about, "regression", "classification")
        with described_by(held.path, about):
            schema = Schema.from_dict(about["schema"])
            record, count = typed(about["record"], TableFit, "record"), len(schema.targets)
            scale = numbers(about["output_scale"], "output_scale", count, least=SMALLEST)
            y_mean = numbers(about["y_mean"], "y_mean", count)
            y_var = numbers(about["y_var"], "y_var", count, least=0.0)
            memory = typed(about.get("memory"), Memory | None, "memory")
            pair = tuple[Counts, Counts] | None
            tallies = as_tallies(typed(about.get("tallies"), pair, "tallies"))
            check_tallies(tallies, len(schema.features))
            check_targets_of(posterior, schema, record)
            if record["classes"] and scale[0] != 1.0:
                raise WrongValue("its classes are divided by a scale")
            check_posterior(posterior, AbstractPosterior, len(schema.features))
            known = posterior.known_noise
            values = parameters(with_found_mean(posterior), scale, known_noise=known)
        record = record | {"parameters": values}
        moments = (scale, y_mean, y_var)
        return cls(posterior, schema, record, *moments, memory, tallies, kept=held.kept)


@in_double
def check_targets(likelihood: AbstractLikelihood, targets: Sequence[str], table: Encoded) -> None:
    """Refuses targets that a likelihood does not take.

    Raises:
        DataError: naming column and row of the first one.
    """
    assert table.y is not None
    bad = np.argwhere(~np.asarray(likelihood.accepts(jax.numpy.asarray(table.y))))
    if len(bad):
        i, p = map(int, bad[0])
        raise DataError(
            f"column '{targets[p]}', row {table.table_row(i)}: {table.y[i, p]:g} is not among "
            f"what the likelihood {type(likelihood).__name__} takes, {likelihood.accepted} "
            f"({plural(len(bad), 'cell')} in all); correct the cell, or choose another likelihood"
        )


def _check_good(good: np.ndarray) -> None:
    """Refuses predictions that are not finite."""
    bad = np.flatnonzero(~good)
    if len(bad):
        verb = "is" if len(bad) == 1 else "are"
        raise NumericalError(
            f"{len(bad)} of {plural(len(good), 'prediction')} {verb} not finite (the first is "
            f"number {bad[0] + 1}); inputs far outside the fitted ones do this"
        )


def _joined(parts: Sequence[Scores | None]) -> Scores | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    within = {level: np.concatenate([part.within[level] for part in known]) for level in LEVELS}
    return Scores(np.concatenate([part.crps for part in known]), within)
