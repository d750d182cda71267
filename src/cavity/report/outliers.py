"""The rows of a table that a robust model takes for outliers, from the model and the table."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import HasHeavyTails, capability
from cavity.numerics.text import plural
from cavity.report.outcomes import Outcome
from cavity.report.sections import Heading, Paragraph, Part, Table, number

MOST_ROWS = 12
# Two-sided tail probabilities below this are worth a row of the page.
STRANGE = 0.01
# Sites with a smaller share of the median precision have next to no say.
LITTLE = 0.1


class OutlierRow(NamedTuple):
    """A row that is improbable under the model.

    Attributes:
        row: its number in the table, from 1 on.
        observed: the target.
        predicted: its predictive mean.
        low: lower end of the central 95 % interval.
        high: upper end of it.
        tail: the probability of a value at least as far out, to either side.
        weight: weight of such a row in the function, relative to one that fits perfectly; None
            where the likelihood does not down-weight outliers.
        precision: that of its site over the median of all rows; None where inference was not
            done on the table.
    """

    row: int
    observed: float
    predicted: float
    low: float
    high: float
    tail: float
    weight: float | None
    precision: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Outliers:
    """The strangest rows first, and what to say of them."""

    rows: list[OutlierRow]
    text: str


def outliers(
    likelihood: AbstractLikelihood,
    scale: float,
    outcome: Outcome,
    precisions: np.ndarray | None = None,
) -> Outliers | None:
    """Weights of rows under a robust likelihood; None for any other likelihood.

    Shown are rows that the predictions did not expect, and rows whose sites have little say. A
    Student-t density is no longer log-concave where a row is further from the function than the
    square root of the degrees of freedom times its scale; there the site of a row has a negative
    precision.

    Args:
        likelihood: of the outputs divided by `scale`.
        scale: divisor of the output.
        outcome: targets and their predictive distributions, as tables.
        precisions: of the sites of inference on these rows, over their median, (N,).
    """
    heavy = capability(likelihood, HasHeavyTails)
    if heavy is None:
        return None
    observed, mean, table, rows = outcome.observed, outcome.mean, outcome.table, outcome.rows
    assert table is not None
    below = table.cdf(observed)
    tail = 2.0 * np.minimum(below, 1.0 - below)
    low, high = table.quantiles(np.array([0.025, 0.975])).T
    weight = heavy.outlier_weights((observed - mean) / scale)
    if weight is not None:
        far = int(np.sum(weight < 0.5))
        text = (
            f"{far} of {plural(len(observed), 'row')} lie further from the predicted mean than "
            "√df scales, where the likelihood lets go: the further out such a row is, the less "
            "it pulls the function. "
        )
    else:
        text = (
            "Under Laplace noise no row pulls the function harder than any other, however far out "
            "it is. "
        )
    strange = tail < STRANGE
    if precisions is not None:
        strange |= precisions < LITTLE
    order = np.argsort(tail, kind="stable")
    shown = [int(i) for i in order if strange[i]][:MOST_ROWS]
    found = [
        OutlierRow(
            row=int(rows[i]),
            observed=float(observed[i]),
            predicted=float(mean[i]),
            low=float(low[i]),
            high=float(high[i]),
            tail=float(tail[i]),
            weight=None if weight is None else float(weight[i]),
            precision=None if precisions is None else float(precisions[i]),
        )
        for i in shown
    ]
    text += _tally(tail, precisions, shown=len(found), strange=int(np.sum(strange)))
    return Outliers(found, text)


def _tally(tail: np.ndarray, precisions: np.ndarray | None, *, shown: int, strange: int) -> str:
    """Number of rows with unlikely tail probabilities, and the number expected by chance."""
    count, beyond = len(tail), int(np.sum(tail < STRANGE))
    expected = f"with {plural(count, 'row')} chance alone brings about {STRANGE * count:.2g}"
    text = f"{_have(beyond)} a tail probability below {STRANGE:g}; {expected}."
    if precisions is not None:
        little = int(np.sum(precisions < LITTLE))
        text += f" {_have(little)} a site precision below {LITTLE:g} of the median."
    if not shown:
        text += " So there is no row to show."
    elif shown < strange:
        text += f" The {shown} strangest are shown."
    return text


def _have(rows: int) -> str:
    return f"{plural(rows, 'row')} {'has' if rows == 1 else 'have'}"


def outlier_parts(found: Outliers | None, dates: Callable[[int], dict[str, str]]) -> list[Part]:
    """The outlying rows of a target, for its section; nothing for other likelihoods.

    Args:
        found: the rows.
        dates: gives the dates of a row by the names of their columns.
    """
    if found is None:
        return []
    parts: list[Part] = [Heading("Outlying rows"), Paragraph(found.text)]
    if not found.rows:
        return parts
    weighed, sited = found.rows[0].weight is not None, found.rows[0].precision is not None
    rows = [
        (
            *(str(r.row), *dates(r.row).values(), r.observed, r.predicted),
            *(f"{number(r.low)} to {number(r.high)}", number(r.tail, 2)),
            *([number(r.weight, 2)] if weighed else []),
            *([number(r.precision, 2)] if sited else []),
        )
        for r in found.rows
    ]
    head = [">row", *(f">{name}" for name in dates(found.rows[0].row)), ">observed", ">predicted"]
    head += [">95 % interval", ">tail probability"]
    head += [*([">weight"] if weighed else []), *([">site precision"] if sited else [])]
    pulls = (
        "The weight is how strongly such a row pulls the function, next to one that fits "
        "perfectly. "
    )
    text = (
        "The tail probability is that of a value at least as far out, to either side. "
        f"{pulls if weighed else ''}Rows that the model was fitted to have had their say in the "
        "prediction already."
    )
    parts += [Table(head, rows), Paragraph(text, "small")]
    if sited:
        text = (
            "The site precision is how much say inference on this table gives the row, relative "
            "to the median of all rows: 1 is a typical row. A row near zero has next to no say, "
            "and one below zero pushes the other way: it makes the function less certain instead "
            "of pulling it."
        )
        parts.append(Paragraph(text, "small"))
    return parts
