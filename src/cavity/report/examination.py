"""Quality of a model's approximation, on the rows of a table."""

import numpy as np

from cavity.estimators.layers import layers_of, weight_priors
from cavity.learning.diagnostics.examination import Examination, best_place
from cavity.learning.diagnostics.examine import examine
from cavity.learning.double_precision import in_double
from cavity.learning.infer import NumericalError
from cavity.learning.results.result import Inference
from cavity.models.compression import is_compressed
from cavity.persistence.errors import DataError
from cavity.report import examination_figures as figures
from cavity.report.figure_data import inducing_points
from cavity.report.leave_one_out import inference_on
from cavity.report.sections import Bullets, Paragraph, Picture, Section, Table
from cavity.report.subject import Subject
from cavity.tables.schema import Encoded
from cavity.tables.table_model import TableModel

# Places along a single input where one more point is tried, and bars of the largest gains.
PLACES, BARS = 200, 10
# Rows of a table up to which a page waits for products with their covariance.
MOST_ROWS = 5_000


@in_double
def examine_table(
    fitted: TableModel,
    table: Encoded,
    inference: Inference | None = None,
    candidates: np.ndarray | None = None,
    level: str | None = None,
) -> Examination:
    """The examination of a model on a table, evidences in the units of its targets.

    Args:
        fitted: the model.
        table: rows with their targets.
        inference: on these rows; None to do it here.
        candidates: places where one more point is tried, (C, D); None for the rows.
        level: of the bracket, see `cavity.diagnostics.bracket`.

    Raises:
        DataError: for models that cannot be examined, with the reason.
        NumericalError: where bounds are not finite.
    """
    if is_compressed(fitted.posterior):
        raise DataError(
            "the model was compressed, for predictions alone, and has no inducing variables to "
            "examine: give the model that it was made from"
        )
    if "mcmc" in fitted.record:
        raise DataError(
            "the posterior of this model was drawn from, and draws have no evidence to examine: "
            "fit with another method"
        )
    if layers_of(fitted.posterior.model):
        raise DataError(
            "an examination compares with the full Gaussian process, which a model of layers does "
            "not have"
        )
    if weight_priors(fitted.posterior.model):
        raise DataError(
            "an examination compares with the full Gaussian process, which a model of weights is "
            "not: 'cavity evaluate' compares its predictions with the targets"
        )
    count = fitted.posterior.model.likelihood.latents
    if count > 1:
        raise DataError(
            f"an examination is for one latent function, and this model has {count}: "
            "'cavity evaluate' compares its predictions with the targets"
        )
    result = inference_on(fitted, table) if inference is None else inference
    try:
        found = examine(result, candidates=candidates, level=level)
    except ValueError as error:
        raise DataError(str(error)) from None
    return found.shifted(-len(table.X) * float(np.sum(np.log(fitted.output_scale))))


def examined(subject: Subject) -> Section | None:
    """Section on the quality of the approximation; None where it cannot be examined."""
    fitted, table = subject.fitted, subject.encoded
    inference = subject.inferred[0] if subject.judged else None
    if inference is None:
        return None
    along, level = _along(fitted, table), None if len(table.X) <= MOST_ROWS else "trace"
    try:
        found = examine_table(fitted, table, inference, along, level)
    except (DataError, NumericalError):
        return None
    gained = found.gains is not None and np.max(found.gains.gain) > 0.0
    text = (
        "From inference on this table at the learned parameters; nothing is learned again. It "
        "judges the model on the rows that it was fitted to if this is their table."
    )
    return Section(
        "Is the approximation good enough?",
        [
            Bullets(found.sentences),
            *([_picture(fitted, table, found)] if gained else []),
            Table((), found.rows(table.numbers.tolist()), "All numbers", 0),
            Paragraph(text, "small"),
        ],
    )


def _along(fitted: TableModel, table: Encoded) -> np.ndarray | None:
    """Places along the input, where there is a single one of numbers."""
    inputs = fitted.schema.inputs
    if len(inputs) != 1 or inputs[0].kind != "numeric" or np.ptp(table.X) == 0.0:
        return None
    places = np.linspace(np.min(table.X), np.max(table.X), PLACES)
    # the gain is zero at inducing points alone, which a grid would miss
    return np.sort(np.concatenate([places, _inducing(fitted, places)]))[:, None]


def _inducing(fitted: TableModel, places: np.ndarray) -> np.ndarray:
    """The inducing points of a single input between the ends of some places."""
    found = inducing_points(fitted)
    Z = np.zeros(0) if found is None else found[:, 0]
    return Z[(np.min(places) <= Z) & (np.max(places) >= Z)]


def _picture(fitted: TableModel, table: Encoded, found: Examination) -> Picture:
    """Picture of the gain of one more inducing point: along the input, or at the best rows."""
    gains = found.gains
    assert gains is not None
    if gains.rows is None:
        name = fitted.schema.inputs[0].name
        x = gains.places[:, 0]
        places, Z = (fitted.schema.shown(name, part) for part in (x, _inducing(fitted, x)))
        return figures.gains_along(name, places, gains.gain, Z)
    order = np.argsort(-gains.gain, kind="stable")[:BARS]
    numbers = table.numbers[gains.rows[order]]
    return figures.largest_gains(
        numbers, gains.gain[order], best_place(gains, table.numbers.tolist())
    )
