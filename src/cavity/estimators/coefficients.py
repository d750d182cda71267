"""Coefficients of a linear model as a table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.models.linear.coefficients import Coefficients


def coefficient_table(
    found: Coefficients,
    columns: Sequence[str],
    scale: np.ndarray,
    outputs: Sequence[str],
    fdr: float = 0.1,
    kind: str = "output",
) -> dict[str, np.ndarray]:
    """Coefficients with their names, in the units of the data, a row for each.

    Args:
        found: posterior marginals, of outputs divided by `scale`.
        columns: the names of the columns, (D,).
        scale: divisor of each output, (P,), or of all of them, (1,).
        outputs: the names of the outputs, or of the classes, in order.
        fdr: the expected share of errors of sign among the selected, at the most.
        kind: what an output is called.

    Returns:
        Columns by name: `column`; of several outputs the one (`kind`); `mean`, `lower`, `upper`;
        `inclusion_probability`, of a prior with a spike; `sign_probability`, that of the likelier
        sign; `selected`, at that rate.

    Raises:
        ValueError: for a rate outside (0, 1).
    """
    several = found.mean.ndim > 1
    count = found.mean.shape[1] if several else 1
    unit = np.broadcast_to(scale, (count,))

    def stacked(values: np.ndarray) -> np.ndarray:
        """Values (D, P) with all of the first output first."""
        return values.reshape(len(columns), count).T.ravel()

    selected = np.zeros((count, len(columns)), bool)
    for i in range(count):
        selected[i, found.select(fdr, i if several else None)] = True
    table: dict[str, Any] = {"column": np.array(list(columns) * count, dtype=object)}
    if several:
        table[kind] = np.repeat(np.array(list(outputs), dtype=object), len(columns))
    measured = np.repeat(unit, len(columns))
    each = {"mean": found.mean, "lower": found.lower, "upper": found.upper}
    table |= {name: stacked(values) * measured for name, values in each.items()}
    if found.inclusion is not None:
        table["inclusion_probability"] = stacked(found.inclusion)
    table["sign_probability"] = stacked(np.maximum(found.negative, found.positive))
    table["selected"] = selected.ravel()
    return table
