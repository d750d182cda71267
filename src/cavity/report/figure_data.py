"""Numbers that pictures show, of reports and of `cavity.plots` alike."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity.drawing import BANDS
from cavity.estimators.layers import first_functions, weight_priors
from cavity.inducing.base import Points
from cavity.report.outcomes import Outcome
from cavity.report.slices import Slice, in_one_go
from cavity.tables.table_model import TableModel

LEVELS = np.append(np.linspace(0.05, 0.95, 19), 0.99)
PLACES = 400  # along the only input


class Coverage(NamedTuple):
    """Coverage of central intervals.

    Attributes:
        levels: nominal coverage, (L,).
        observed: the share of rows inside each, (L,).
        lower: shares between which chance alone leaves a calibrated model, (L,).
        upper: the upper end of these, (L,).
    """

    levels: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def coverage_of(outcome: Outcome, levels: np.ndarray = LEVELS) -> Coverage:
    """The share of rows in the central intervals of every level.

    Args:
        outcome: a target and what a model says of it.
        levels: nominal coverage, (L,).
    """
    from scipy.stats import binom

    count = len(outcome.observed)
    observed = np.array([outcome.coverage(level) for level in levels])
    lower, upper = (binom.ppf(p, count, levels) / count for p in (0.025, 0.975))
    return Coverage(levels, observed, lower, upper)


def along_only_input(fitted: TableModel, x: np.ndarray) -> tuple[Slice, np.ndarray | None]:
    """Places along the only input of a model, and its inducing points among them.

    Args:
        fitted: the model, of one numeric column.
        x: the column in a table, (N,), as numbers.

    Returns:
        The places with what is shown of them, and inducing points (M,); None without any.
    """
    column, Z = fitted.schema.inputs[0], inducing_points(fitted)
    points = None if Z is None else Z[:, 0]
    ends = np.array([x.min(), x.max()])
    if ends[0] == ends[1] and points is not None:
        ends = np.array([min(ends[0], points.min()), max(ends[1], points.max())])
    room = 0.05 * (ends[1] - ends[0]) or 0.05 * abs(ends[0]) or 1.0
    places = np.linspace(ends[0] - room, ends[1] + room, PLACES)

    def shown(values: np.ndarray) -> np.ndarray:
        return fitted.schema.shown(column.name, values)

    cut = Slice(column, places[:, None], shown(places), (), shown(x))
    if points is not None:
        points = shown(points[(places[0] <= points) & (places[-1] >= points)])
    return cut, points


def inducing_points(fitted: TableModel) -> np.ndarray | None:
    """The inducing points of a model, of a deep one those of its first layer, (M, D).

    None where it has none, or other inducing variables.
    """
    model = fitted.posterior.model
    inducing = None if weight_priors(model) else first_functions(model).inducing
    return np.asarray(inducing.Z) if isinstance(inducing, Points) else None


def order_of_swings(coarse: Sequence[Slice], predict: Any) -> np.ndarray:
    """Slices in the order in which they move predictions, the most first, (slices, P).

    Args:
        coarse: a few places along every column.
        predict: takes inputs, and gives their predictions.
    """
    means = in_one_go(coarse, predict, BANDS)
    swings = np.array([np.ptp(mean, axis=0) for mean, _ in means])
    return np.argsort(-swings, axis=0, kind="stable")
