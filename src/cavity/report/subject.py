"""A model and the table that a report is on, with what its sections need of both."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.drawing import BANDS
from cavity.estimators.predictions import Predictions, binary_probabilities
from cavity.learning.results.result import Inference
from cavity.likelihoods.predictive.numerical import NumericalPredictive
from cavity.report.class_figures import ClassOutcome
from cavity.report.columns import row_dates
from cavity.report.figures import Shown
from cavity.report.leave_one_out import SingleRows, quick_inference_on, single_rows
from cavity.report.outcomes import Outcome
from cavity.tables.schema import Encoded
from cavity.tables.table_model import TableModel


@dataclasses.dataclass(frozen=True, eq=False)
class RoughPredictions:
    """Means and quantiles from tables, quick and exact enough to be drawn.

    Attributes:
        mean: means, (n, P).
        tables: of each output.
    """

    mean: np.ndarray
    tables: list[NumericalPredictive]

    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        """Quantiles, (n, P, Q)."""
        return np.stack([t.quantiles(np.asarray(levels)) for t in self.tables], axis=1)


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """A model and a table; what takes work is done once, when a section asks for it."""

    fitted: TableModel
    encoded: Encoded

    @property
    def judged(self) -> bool:
        """True where the table has the targets."""
        return self.encoded.y is not None

    def predict(self, X: np.ndarray) -> Any:
        """Means and quantiles at inputs that are no rows of the table, with typical side data."""
        if self.fitted.classes:
            return binary_probabilities(self.fitted.posterior, X)
        side = {k: np.full(len(X), np.median(v)) for k, v in self.encoded.side.items()}
        out = self.fitted.predictive(X, side)
        return (
            out if self.fitted.normal else RoughPredictions(out.mean, out.numerical_predictive())
        )

    def shown(self, target: str) -> tuple[str, Shown]:
        """Name of the axis of a target's curves, and descriptions of them."""
        classes = self.fitted.classes
        if not classes:
            return target, Shown(f"Predictions of {target}")
        name = f"probability of {classes[-1]}"
        return name, Shown(
            f"The {name}",
            f"The {name}",
            "this probability itself with 50 % and 95 % certainty",
            f"A point at 1 is a row that is {classes[-1]}, at 0 one that is {classes[0]}.",
        )

    def dates(self, row: int) -> dict[str, str]:
        """The dates of a row by the names of their columns."""
        return row_dates(self.fitted.schema, self.encoded, row)

    @functools.cached_property
    def inferred(self) -> tuple[Inference | None, str]:
        """Inference on the rows at the learned parameters, and otherwise why there is none."""
        return quick_inference_on(self.fitted, self.encoded)

    @functools.cached_property
    def single_rows(self) -> tuple[SingleRows | None, str]:
        """Leave-one-out results, and otherwise the reason why they are not shown."""
        return single_rows(self.fitted, *self.inferred)

    @functools.cached_property
    def log_probabilities(self) -> np.ndarray:
        """Log probabilities of the classes of the rows, (N, C)."""
        return self.fitted.log_probabilities(self.encoded.X)

    @functools.cached_property
    def log_densities(self) -> np.ndarray:
        """Log densities of the targets of a regression under the predictions, (N, P)."""
        assert self.encoded.y is not None
        return self.predictions.log_density(self.encoded.y)

    @functools.cached_property
    def predictions(self) -> Predictions:
        """Predictions of the targets of a regression at the rows."""
        return self.fitted.predictive(self.encoded.X, self.encoded.side)

    @functools.cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of each target by name, none where the table has no targets."""
        if not self.judged:
            return {}
        found = self.fitted.metrics(self.encoded)
        if len(self.fitted.classes) > 2:
            found.pop("auc")  # of two classes
        return found.get("per_target", {self.fitted.targets[0]: found})

    @functools.cached_property
    def class_outcome(self) -> ClassOutcome:
        """Classes of the rows, and what the model says of them."""
        assert self.encoded.y is not None
        labels = self.encoded.y[:, 0].astype(int)
        return ClassOutcome(labels, self.log_probabilities, self.fitted.classes)

    @functools.cached_property
    def outcomes(self) -> list[Outcome]:
        """Outputs and predictions of each target of a regression."""
        y, out, rows = self.encoded.y, self.predictions, self.encoded.numbers
        assert y is not None
        several = range(len(self.fitted.targets))
        if self.fitted.normal:
            quantiles = out.quantiles(BANDS)
            return [
                Outcome(y[:, i], out.mean[:, i], out.std[:, i], quantiles[:, i], rows)
                for i in several
            ]
        return [
            Outcome(y[:, i], out.mean[:, i], out.std[:, i], t.quantiles(np.array(BANDS)), rows, t)
            for i, t in zip(several, out.numerical_predictive(), strict=True)
        ]
