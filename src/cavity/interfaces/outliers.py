"""The rows of a table that a robust model takes for outliers, from the model and the table."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from cavity.learning.tabulated import Tabulated
from cavity.likelihoods.robust import Laplace, StudentT
from cavity.numerics.words import counted

MOST_ROWS = 12
# Two-sided tail probabilities below this are worth a row of the page.
STRANGE = 0.01


class OutlierRow(NamedTuple):
    """A row that the model finds strange.

    Attributes:
        row: its number in the table, from 1 on.
        observed: the target.
        predicted: its predictive mean.
        low: lower end of the central 95 % interval.
        high: upper end of it.
        tail: the probability of a value at least as far out, to either side.
        weight: how strongly such a row pulls the function, next to one that fits perfectly; None
            where the likelihood never lets go.
    """

    row: int
    observed: float
    predicted: float
    low: float
    high: float
    tail: float
    weight: float | None


@dataclasses.dataclass(frozen=True, eq=False)
class Outliers:
    """The strangest rows first, and what to say of them."""

    rows: list[OutlierRow]
    text: str


def outliers(
    likelihood: Any,
    scale: float,
    observed: np.ndarray,
    mean: np.ndarray,
    table: Tabulated,
    rows: Any,
) -> Outliers | None:
    """What a robust likelihood makes of each row; None for any other likelihood.

    A file of a model has no sites, so this goes by predictions: a Student-t density is no longer
    log-concave where a row is further from the function than the square root of the degrees of
    freedom times its scale, and there the site of a row has a negative precision.

    Args:
        likelihood: of the outputs divided by `scale`.
        scale: divisor of the output.
        observed: targets, (N,).
        mean: predictive means, (N,).
        table: predictive distributions.
        rows: numbers of the rows in the table, (N,).
    """
    if not isinstance(likelihood, StudentT | Laplace):
        return None
    below = table.cdf(observed)
    tail = 2.0 * np.minimum(below, 1.0 - below)
    low, high = table.quantiles(np.array([0.025, 0.975])).T
    weight = None
    count = len(observed)
    if isinstance(likelihood, StudentT):
        df = float(likelihood.df)
        z = (observed - mean) / (scale * float(likelihood.scale))
        weight = df / (df + z**2)
        left = int(np.sum(z**2 > df))
        text = (
            f"{left} of {counted(count, 'row')} lie further from the predicted mean than √df "
            "scales, where the likelihood lets go: the further out such a row is, the less it "
            "pulls the function. "
        )
    else:
        text = (
            "Under Laplace noise no row pulls the function harder than any other, however far out "
            "it is. "
        )
    order = np.argsort(tail, kind="stable")[:MOST_ROWS]
    shown = [int(i) for i in order if tail[i] < STRANGE]
    found = [
        OutlierRow(
            row=int(rows[i]),
            observed=float(observed[i]),
            predicted=float(mean[i]),
            low=float(low[i]),
            high=float(high[i]),
            tail=float(tail[i]),
            weight=None if weight is None else float(weight[i]),
        )
        for i in shown
    ]
    expected = f"with {counted(count, 'row')} chance alone brings about {STRANGE * count:.2g}"
    beyond = int(np.sum(tail < STRANGE))
    text += f"{counted(beyond, 'row')} have a tail probability below {STRANGE:g}; {expected}."
    if not found:
        text += " So there is no row to show."
    elif len(found) < beyond:
        text += f" The {len(found)} strangest are shown."
    return Outliers(found, text)
