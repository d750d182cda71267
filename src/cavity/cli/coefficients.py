"""`cavity coefficients`: the coefficients of a linear model as a table."""

from typing import Any

from cavity.cli.opened import opened_to_write
from cavity.cli.session import Outcome, Session, usage
from cavity.cli.text import describe_selected
from cavity.numerics.text import plural
from cavity.tables.coefficients import model_coefficients, says_little, selected_columns
from cavity.tables.files import write_predictions
from cavity.tables.table_model import TableModel


def coefficients(session: Session, model: str, *, out: str, fdr: float = 0.1) -> Outcome:
    """Writes a row for each coefficient of a linear model, and says which are selected."""
    if not 0.0 < fdr < 1.0:
        raise usage("--fdr", f"the rate lies strictly between 0 and 1, given {fdr:g}")
    fitted: TableModel = opened_to_write(model, "coefficients", out)
    table = model_coefficients(fitted, fdr)
    write_predictions(out, table)
    rows, selected = len(table["mean"]), selected_columns(table)
    record: dict[str, Any] = {"model": model, "out": out, "n_rows": rows, "columns": [*table]}
    known = fitted.record
    averaged = [*known.get("integrated", {})]
    record |= {"fdr": fdr, "selected": selected, "prior": known.get("prior")}
    record |= {"averaged_over": averaged, "converged": known["converged"]}
    record |= {"message": known["message"]}
    if not known["converged"]:
        session.warn(
            f"not converged, so that selection is not to be relied on: {known['message']}"
        )
    little = says_little(fitted)
    if little is not None:
        session.warn(little)
    text = f"{plural(rows, 'coefficient')} written to {out}: {', '.join(table)}"
    how = f"averaged over {', '.join(averaged)}" if averaged else "its parameters as learned"
    by = f"by the prior {known.get('prior')}, {how}"
    return Outcome(record, f"{text}\n\n{describe_selected(selected, rows, fdr)}\n{by}")
