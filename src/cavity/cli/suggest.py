"""`cavity suggest`: the rows of a table that are worth measuring next."""

from pathlib import Path
from typing import Any

import numpy as np

from cavity.cli.opened import opened
from cavity.cli.session import Outcome, Session, usage
from cavity.cli.table_parts import report_warnings
from cavity.learning.active.improvement import GOALS
from cavity.learning.active.suggest import CRITERIA, WITH_GOAL, WITH_REFERENCE, Suggestions
from cavity.learning.active.suggest import suggest as suggested
from cavity.learning.double_precision import in_double
from cavity.numerics.text import plural
from cavity.persistence.errors import DataError
from cavity.tables.files import ENDINGS, beside, check_output, read_table, write_predictions
from cavity.tables.schema import Encoded, encode
from cavity.tables.table_model import TableModel

# Columns that are put before those of the table, and their names where it has such columns.
ADDED = {"row": "row_of_table", "gain": "gain_of_row"}


@in_double
def suggest(
    session: Session,
    model: str,
    candidates: str,
    *,
    out: str,
    n: int = 10,
    criterion: str = "information",
    reference: str | None = None,
    goal: str | None = None,
    drop_missing: bool = False,
) -> Outcome:
    """Writes the rows whose targets would tell most, with their numbers and gains."""
    _check_options(out, criterion, reference, goal)
    fitted: TableModel = opened(model, "suggest").model
    check_output(out)
    table = read_table(candidates)
    reading: dict[str, Any] = {"drop_missing": drop_missing, "need_targets": False}
    encoded = encode(table, fitted.schema, **reading)
    report_warnings(session, candidates, encoded.noticed)
    where = None
    if reference is not None:
        there = encode(read_table(reference), fitted.schema, **reading)
        report_warnings(session, reference, there.noticed)
        where = there.X
    found = _suggestions(model, fitted, encoded, where, (n, criterion, goal))
    unit = _unit(fitted, criterion)
    gains = found.gains + np.log(unit) if criterion == WITH_GOAL else found.gains * unit
    numbers = encoded.numbers[found.rows]
    chosen = table[numbers - 1]
    names = [other if name in table.columns else name for name, other in ADDED.items()]
    added = dict(zip(names, (numbers, gains), strict=True))
    columns = beside(added, {name: chosen[name] for name in table.columns})
    write_predictions(out, columns)
    record = {"model": model, "table": candidates, "out": out, "n_rows": len(encoded.X)}
    record |= {"criterion": criterion, "rows": numbers.tolist(), "gains": gains.tolist()}
    text = f"{len(numbers)} of {plural(len(encoded.X), 'row')} of {candidates} written to {out}"
    said = [f"{text}, by {criterion}:", "", *_lines(numbers, gains)]
    said += ["", found.message] if found.message else []
    return Outcome(record | {"message": found.message}, "\n".join(said))


def _check_options(out: str, criterion: str, reference: str | None, goal: str | None) -> None:
    if Path(out).suffix.lower() not in ENDINGS:
        raise usage("--out", f"'{out}' must end in .csv or .parquet")
    if criterion not in CRITERIA:
        raise usage("--criterion", f"is one of {', '.join(CRITERIA)}, given '{criterion}'")
    if reference is not None and criterion not in WITH_REFERENCE:
        those = " and ".join(WITH_REFERENCE)
        raise usage("--reference", f"it is for --criterion {those}: leave it out")
    if goal is not None and criterion != WITH_GOAL:
        raise usage("--goal", f"it is for --criterion {WITH_GOAL}: leave it out")
    if goal not in (None, *GOALS):
        raise usage("--goal", f"is {' or '.join(GOALS)}, given '{goal}'")


def _suggestions(
    path: str,
    fitted: TableModel,
    encoded: Encoded,
    reference: np.ndarray | None,
    asked: tuple[int, str, str | None],
) -> Suggestions:
    n, criterion, goal = asked
    side: Any = encoded.side or None
    posterior: Any = fitted.posterior
    if "integrated" in fitted.record:
        # averages over parameters have no joint Gaussian: that at the likeliest values has one
        posterior = getattr(posterior, "likeliest", posterior)
    try:
        return suggested(posterior, encoded.X, n, criterion, reference, side, goal)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} suggests no rows: {error}") from None


def _unit(fitted: TableModel, criterion: str) -> float:
    """Factor of a gain: variances are in squared units of one target, improvements in its units.

    Of logarithms of improvements it is the factor of what they are logarithms of.
    """
    if criterion == "information" or len(fitted.output_scale) > 1:
        return 1.0
    scale = float(fitted.output_scale[0])
    return scale if criterion == WITH_GOAL else scale**2


def _lines(numbers: np.ndarray, gains: np.ndarray, most: int = 20) -> list[str]:
    lines = [f"{'row':>8}  {'gain':>10}"]
    pairs = zip(numbers[:most], gains[:most], strict=True)
    lines += [f"{row:>8}  {gain:>10.4g}" for row, gain in pairs]
    return lines + (["..."] if len(numbers) > most else [])
