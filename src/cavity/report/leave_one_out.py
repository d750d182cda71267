"""Leave-one-out predictions of the rows of a table, at the parameters that a fit learned."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity.estimators.layers import last_functions, layers_of, weight_priors
from cavity.estimators.registry import Method, build_method
from cavity.estimators.reinference import infer_again, left_out_densities
from cavity.learning.double_precision import in_double
from cavity.learning.infer import NumericalError
from cavity.learning.methods.methods import PowerEP
from cavity.learning.results.result import Inference
from cavity.likelihoods.capabilities import HasHeavyTails, capability
from cavity.numerics.text import plural
from cavity.report.sections import Heading, Paragraph, Part, Table
from cavity.tables.schema import Encoded
from cavity.tables.table_model import TableModel

# Rows of a table up to which a report infers anew: in closed form, and by sweeps for each latent
# function, of which classes and outputs have one each.
MOST_FULL, MOST_SPARSE = 2_000, 20_000
MOST_SWEPT_FULL, MOST_SWEPT_SPARSE = 1_000, 5_000
LOWEST = 5


@dataclasses.dataclass(frozen=True, eq=False)
class SingleRows:
    """Leave-one-out densities and site precisions of the rows of a table.

    Attributes:
        densities: log density of each target given the other rows, (N, P).
        precisions: of the sites, as shares of the median of their target, (N, P); None where
            nobody asks for them, or where that median is not positive.
        caution: what a reader must know of how they came about; mostly nothing.
    """

    densities: np.ndarray
    precisions: np.ndarray | None
    caution: str = ""


def inference_on(fitted: TableModel, table: Encoded) -> Inference:
    """Inference on a table at the parameters that a fit learned, of targets divided by a scale.

    Args:
        fitted: the model.
        table: rows with their targets.
    """
    assert table.y is not None
    settings = {"power": fitted.record["power"], "jitter": fitted.record["jitter"]}
    data = (table.X, table.y, table.side)
    method = _method(fitted)
    return infer_again(fitted.posterior, fitted.output_scale, *data, method=method, **settings)


def quick_inference_on(fitted: TableModel, table: Encoded) -> tuple[Inference | None, str]:
    """Inference on a table where that is quick; otherwise None, and why there is none."""
    trouble = _why_not(fitted, _method(fitted), len(table.X))
    if trouble:
        return None, trouble
    try:
        return inference_on(fitted, table), ""
    except NumericalError as error:
        return None, f"inference on this table failed, {error}"


def _method(fitted: TableModel) -> Method:
    if fitted.record.get("coupled") is False:
        return PowerEP(coupled=False)
    return build_method(fitted.record["method"])


@in_double
def single_rows(
    fitted: TableModel, inference: Inference | None, trouble: str
) -> tuple[SingleRows | None, str]:
    """The rows of a table given each other; or None, and in a sentence why they are not shown.

    Args:
        fitted: the model.
        inference: on these rows.
        trouble: the reason where there is none.
    """
    none = "There are no leave-one-out densities: "
    if inference is None:
        return None, f"{none}{trouble}."
    try:
        densities = left_out_densities(inference, fitted.output_scale)
        precisions = None
        if capability(fitted.posterior.model.likelihood, HasHeavyTails) is not None:
            precisions = relative(inference.site_precisions().reshape(densities.shape))
    except NumericalError as error:
        return None, f"{none}inference on this table failed, {error}."
    message = f"Inference did not converge: {inference.message}."
    return SingleRows(densities, precisions, "" if inference.converged else message), ""


def relative(precisions: np.ndarray) -> np.ndarray | None:
    """Precisions (N, P) over the median of their column; None unless these are positive."""
    middle = np.nanmedian(precisions, axis=0)
    return precisions / middle if np.all(middle > 0.0) else None


def _why_not(fitted: TableModel, method: Method, rows: int) -> str:
    if "mcmc" in fitted.record:
        return "the posterior was drawn from, and draws have no sites to leave out"
    if layers_of(fitted.posterior.model):
        return "all rows of a deep model share the sites of its layers"
    if fitted.record.get("batch") is not None:
        return "with minibatches all rows of a network share the sites of its weights"
    if rows < 2:
        return "they need a table of at least two rows"
    model = fitted.posterior.model
    linear = bool(weight_priors(model))
    full, each = not linear and last_functions(model).inducing is None, 1
    most = MOST_FULL if full else MOST_SPARSE
    if method.tied or not fitted.normal:
        most = MOST_SWEPT_FULL if full else MOST_SWEPT_SPARSE
        each = model.likelihood.latents * len(fitted.targets)
    of = "a full Gaussian process" if full else "a model with inducing points"
    of = "a model of weights" if linear else of
    if rows * each <= most:
        return ""
    several = f" with {each} functions" if each > 1 else ""
    return (
        f"they take inference on this table, which is done for up to {most // each:,} rows of "
        f"{of}{several}, and there are {rows:,}"
    )


class LeftOutRow(NamedTuple):
    """A row that the others did not expect.

    Attributes:
        row: its number in the table, from 1 on.
        observed: the target, of classes its name.
        density: its log density given the others.
        predicted: its log density under the prediction that the report shows.
    """

    row: int
    observed: float | str
    density: float
    predicted: float


@dataclasses.dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Means over the rows, the least expected rows first, and what to say of them.

    Attributes:
        mean: of the log densities given the other rows.
        predicted: of those under the predictions.
        rows: those with the lowest densities.
        noun: what the logarithms are of.
        text: what a reader must know.
    """

    mean: float
    predicted: float
    rows: list[LeftOutRow]
    noun: str
    text: str


def left_out_rows(
    densities: np.ndarray,
    predicted: np.ndarray,
    observed: Sequence[Any],
    rows: Any,
    *,
    noun: str = "density",
    caution: str = "",
) -> LeftOutRows:
    """Leave-one-out section of one target.

    Args:
        densities: log densities given the others, (N,), NaN where there is none.
        predicted: log densities under the predictions, (N,).
        observed: targets, (N,).
        rows: numbers of the rows in the table, (N,).
        noun: what the logarithms are of.
        caution: more to say.
    """
    known = ~np.isnan(densities)
    text = (
        f"The {noun} of each row given all other rows of this table, with the parameters as "
        "learned: the row is taken out of the posterior, and nothing is learned again."
    )
    undefined = int(np.sum(~known))
    if undefined:
        text += (
            f" {plural(undefined, 'row')} of {len(known):,} left no proper posterior behind; "
            "neither mean counts them."
        )
    text += f" {caution}" if caution else ""
    order = np.argsort(np.where(known, densities, np.inf), kind="stable")
    shown = [int(i) for i in order[:LOWEST] if known[i]]
    found = [
        LeftOutRow(int(rows[i]), observed[i], float(densities[i]), float(predicted[i]))
        for i in shown
    ]
    pair = (densities[known], predicted[known])
    mean, other = (float(np.mean(values)) if len(values) else np.nan for values in pair)
    return LeftOutRows(mean, other, found, noun, text)


def left_out_parts(found: LeftOutRows, dates: Callable[[int], dict[str, str]]) -> list[Part]:
    """The rows given each other, for the section of their target.

    Args:
        found: the rows.
        dates: gives the dates of a row by the names of their columns.
    """
    means = [
        ("each row given the others of this table", found.mean),
        ("the predictions above", found.predicted),
    ]
    text = (
        "Higher is better. If the model was fitted to this table, the first is the honest one of "
        "the two, because each prediction has seen its own row. On a table of new rows the "
        "predictions come from the rows of the fit and the first from this table alone, so that a "
        "short table makes it lower."
    )
    several = "probabilities" if found.noun == "probability" else "densities"
    parts: list[Part] = [
        Heading(f"Leave-one-out {several}"),
        Paragraph(found.text),
        Table((f"mean log {found.noun} of", ">nats per row"), means),
        Paragraph(text, "small"),
    ]
    if not found.rows:
        return parts
    names = [f">{name}" for name in dates(found.rows[0].row)]
    head = [">row", *names, ">observed"]
    head += [f">log {found.noun} given the others", ">of the prediction"]
    rows = [
        (str(r.row), *dates(r.row).values(), r.observed, r.density, r.predicted)
        for r in found.rows
    ]
    return [*parts, Paragraph("The rows that the others expected least:"), Table(head, rows)]
