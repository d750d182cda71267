"""Predictions of many rows, some at a time, in this process or on an engine."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from cavity.estimators.predictions import class_log_probabilities, predict_outputs
from cavity.learning.double_precision import in_double
from cavity.learning.engines.base import AbstractEngine, InProcess, Part
from cavity.models.posterior import AbstractPosterior

# Rows of a part. Last bits depend on which rows are predicted together, so that these are the same
# with an engine and without.
ROWS = 65_536


class Rows(NamedTuple):
    """Some rows: inputs (n, D), side data by name, (n,) each, and outputs where these are read."""

    X: np.ndarray
    side: Mapping[str, np.ndarray]
    y: np.ndarray | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractAnswer(abc.ABC):
    """What is computed of each row alone. It can be pickled, and so sent to other processes.

    To implement:
        `of_rows(rows)`.

    Attributes:
        posterior: its arrays numpy float64.
    """

    posterior: AbstractPosterior

    @in_double
    def __call__(self, part: Part) -> tuple[np.ndarray, ...]:
        return self.of_rows(part.source)

    @abc.abstractmethod
    def of_rows(self, rows: Rows) -> tuple[np.ndarray, ...]:
        """Arrays with an entry for each row, (n, ...) each."""


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractScaledAnswer(AbstractAnswer):
    """The same of outputs that were divided.

    Attributes:
        scale: the divisor of each output, (P,).
    """

    scale: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class FunctionMoments(AbstractAnswer):
    """Means and standard deviations of the function, of outputs as they were divided."""

    def of_rows(self, rows: Rows) -> tuple[np.ndarray, ...]:
        mean, var = map(np.asarray, self.posterior.marginals(rows.X))
        return mean, np.sqrt(var)


@dataclasses.dataclass(frozen=True, eq=False)
class OutputMoments(AbstractScaledAnswer):
    """Means and standard deviations of the outputs, (n, P) each."""

    def of_rows(self, rows: Rows) -> tuple[np.ndarray, ...]:
        out = predict_outputs(self.posterior, self.scale, rows.X, rows.side)
        return out.mean, out.std


@dataclasses.dataclass(frozen=True, eq=False)
class OutputQuantiles(AbstractScaledAnswer):
    """Quantiles of the outputs, (n, P, Q).

    Attributes:
        levels: the probabilities, (Q,).
    """

    levels: np.ndarray

    def of_rows(self, rows: Rows) -> tuple[np.ndarray, ...]:
        out = predict_outputs(self.posterior, self.scale, rows.X, rows.side)
        return (out.quantiles(self.levels),)


@dataclasses.dataclass(frozen=True, eq=False)
class OutputDensities(AbstractScaledAnswer):
    """Log predictive densities of the outputs, (n, P)."""

    def of_rows(self, rows: Rows) -> tuple[np.ndarray, ...]:
        assert rows.y is not None
        out = predict_outputs(self.posterior, self.scale, rows.X, rows.side)
        return (out.log_density(rows.y),)


@dataclasses.dataclass(frozen=True, eq=False)
class ClassLogProbabilities(AbstractAnswer):
    """Log probabilities of the classes, (n, C).

    Attributes:
        count: the number of classes C.
    """

    count: int

    def of_rows(self, rows: Rows) -> tuple[np.ndarray, ...]:
        return (class_log_probabilities(self.posterior, rows.X, self.count),)


def row_by_row(
    answer: AbstractAnswer, rows: Rows, engine: AbstractEngine | None = None
) -> tuple[np.ndarray, ...]:
    """What is asked of every row, in the order of the rows.

    Args:
        answer: what is computed of rows.
        rows: all of them.
        engine: what works on `ROWS` of them at a time; None for this process. The results have
            the same bits.

    Raises:
        ValueError: for unusable rows.
        cavity.engines.EngineError: from an engine that cannot go on.
    """
    parts = _parts(rows)
    found = dict((InProcess() if engine is None else engine).each(answer, parts))
    each = zip(*(found[part.index] for part in parts), strict=True)
    return tuple(arrays[0] if len(arrays) == 1 else np.concatenate(arrays) for arrays in each)


def _parts(rows: Rows) -> list[Part]:
    """The rows in parts; in one where side data are not as many, which is refused with it."""
    n = len(rows.X)
    if n <= ROWS or any(np.shape(values)[:1] != (n,) for values in rows.side.values()):
        return [Part(0, "the rows", rows)]
    starts = range(0, n, ROWS)
    return [
        Part(i, f"rows {at + 1} to {min(at + ROWS, n)}", _cut(rows, at))
        for i, at in enumerate(starts)
    ]


def _cut(rows: Rows, start: int) -> Rows:
    some = slice(start, start + ROWS)
    side = {name: np.asarray(values)[some] for name, values in rows.side.items()}
    return Rows(rows.X[some], side, None if rows.y is None else rows.y[some])
