"""`cavity compress`: a model file for predictions alone."""

import dataclasses
import os

from cavity.cli.opened import opened
from cavity.cli.session import Outcome, Session
from cavity.learning.double_precision import in_double
from cavity.models.compression import compressed
from cavity.numerics.tree import to_numpy
from cavity.persistence.errors import DataError
from cavity.persistence.model_file import check_output
from cavity.tables.table_model import TableModel


@in_double
def compress(session: Session, model: str, out: str) -> Outcome:
    """Writes a model for predictions alone, and says how small it is."""
    fitted: TableModel = opened(model, "compress").model
    check_output(out)
    try:
        small = to_numpy(compressed(fitted.posterior))
    except TypeError as error:
        raise DataError(f"{model} cannot be compressed: {error}") from None
    before, after = fitted.posterior.numbers, small.numbers
    if after >= before:
        raise DataError(
            f"{model} needs all of its {before} numbers: it is a full GP, or compressed already; "
            "a fit with --inducing N gives a smaller one"
        )
    dataclasses.replace(fitted, posterior=small).save(out)
    sizes = [os.path.getsize(path) for path in (model, out)]
    record = {"model": model, "out": out, "numbers": [before, after], "bytes": sizes}
    text = (
        f"{model}: {before} numbers, {sizes[0]} bytes\n{out}: {after} numbers, {sizes[1]} bytes, "
        "for predictions alone"
    )
    return Outcome(record, text)
