"""Learned periods that the data do not show: longer than a column, or aliases of its step."""

import dataclasses

import numpy as np

from cavity.learning.data.cycles import Cycle, Spacing, cycles_of, spacing
from cavity.learning.data.training_data import AbstractTrainingData, Data
from cavity.models.base import AbstractModel

# Periods are longer than the data from this share of what a column shows on; hours of a day show
# one whole period, whose length is learned about as well.
LONGER = 1.05
# Shares of a step that are rounding.
ROUNDING = 1e-3


@dataclasses.dataclass(frozen=True)
class UnseenPeriod:
    """A learned period that the data do not show.

    Attributes:
        name: of the parameter, dotted, with its place where there are several.
        column: of the inputs, counted from 0.
        period: its length, in the units of the column; of a frequency its inverse.
        longest: the longest that the column can show: its range and a step.
        aliased: whether it is below two steps of equal length, so that rows cannot tell it from a
            longer one; otherwise it is longer than the data.
        alias: the longer one; None where that is a constant.
    """

    name: str
    column: int
    period: float
    longest: float
    aliased: bool
    alias: float | None = None

    def __str__(self) -> str:
        number = f"the period of {self.name}, {self.period:.4g},"
        if not self.aliased:
            return (
                f"{number} is longer than the data ({self.longest:.4g}), in which nothing repeats"
            )
        longer = "a constant" if self.alias is None else f"a period of {self.alias:.4g}"
        return f"{number} is below two steps of the data, which cannot tell it from {longer}"


def unseen_periods(model: AbstractModel, data: AbstractTrainingData) -> tuple[UnseenPeriod, ...]:
    """The learned periods that the data do not show; none where rows come in batches.

    Slow components of a spectral mixture are trends, and not named.

    Args:
        model: with its learned parameters.
        data: that it was learned from.
    """
    columns = data.exemplar.rows.x.shape[-1]
    cycles = [
        (f"{name}.{cycle.name}", cycle)
        for name, kernel in model.input_kernels.items()
        for cycle in cycles_of(kernel, range(columns))
    ]
    rows = data.in_memory
    if not cycles or rows is None:
        return ()
    X = _inputs(rows)
    spacings = {c: spacing(X[:, c]) for c in {cycle.column for _, cycle in cycles}}
    found = (_unseen(name, cycle, spacings[cycle.column]) for name, cycle in cycles)
    return tuple(unseen for unseen in found if unseen is not None)


def _unseen(name: str, cycle: Cycle, column: Spacing) -> UnseenPeriod | None:
    period = cycle.period
    if period < 2.0 * column.step * (1.0 - ROUNDING) and column.even:
        turns = column.step / period
        left = abs(turns - round(turns))
        alias = column.step / left if left > ROUNDING else None
        return UnseenPeriod(name, cycle.column, period, column.span, True, alias)
    if cycle.power > 0 and period > LONGER * column.span:
        return UnseenPeriod(name, cycle.column, period, column.span, False)
    return None


def _inputs(data: Data) -> np.ndarray:
    """The inputs of all rows, without padding."""
    rows = data.rows
    x = np.asarray(rows.x, np.float64).reshape(-1, rows.x.shape[-1])
    seen = np.asarray(rows.presence).reshape(len(x), -1).max(axis=1) > 0.0
    return x[seen]
