"""The coefficients of a linear model of a table, by the names of its columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.estimators.coefficients import coefficient_table
from cavity.estimators.hardly_moved import hardly_moved
from cavity.learning.double_precision import in_double
from cavity.models.linear.coefficients import coefficients
from cavity.persistence.errors import DataError
from cavity.tables.table_model import TableModel


@in_double
def model_coefficients(fitted: TableModel, fdr: float = 0.1) -> dict[str, np.ndarray]:
    """The coefficients of a model, a row for each, in the units of the table.

    Args:
        fitted: the model.
        fdr: the expected share of errors of sign among the selected, at the most.

    Returns:
        Columns by name, as `coefficient_table` gives them: of several targets one is `target`,
        and of more than two classes one is `class`.

    Raises:
        DataError: for a model without coefficients.
        ValueError: for a rate outside (0, 1).
    """
    try:
        found = coefficients(fitted.posterior)
    except TypeError:
        raise DataError(
            "this model has no coefficients, which are those of linear models: fit one with "
            "'cavity fit --model linear'"
        ) from None
    outputs, kind = (fitted.classes, "class") if fitted.classes else (fitted.targets, "target")
    features = fitted.schema.features
    return coefficient_table(found, features, fitted.output_scale, outputs, fdr, kind)


@in_double
def says_little(fitted: TableModel) -> str | None:
    """Warning if the rows hardly tell which columns matter; None if they do."""
    return hardly_moved(fitted.posterior, coefficients(fitted.posterior))


def selected_columns(table: Mapping[str, np.ndarray]) -> Any:
    """The names of the selected columns, largest first; of several outputs by their name."""
    kind = next((name for name in ("class", "target") if name in table), None)
    order = np.argsort(-np.abs(table["mean"]), kind="stable")
    chosen = order[table["selected"][order]]
    if kind is None:
        return table["column"][chosen].tolist()
    found: dict[str, list[str]] = {str(name): [] for name in dict.fromkeys(table[kind])}
    for row in chosen:
        found[str(table[kind][row])].append(str(table["column"][row]))
    return found
