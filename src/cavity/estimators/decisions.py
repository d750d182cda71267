"""Costs of decisions in the order of the classes, whatever table they come in."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# Labels that a message names one by one.
NAMED = 10


def align_costs(costs: Any, classes: Sequence[Any]) -> Any:
    """Costs in the order of the classes, a row for each true class and a column for each decision.

    Tables with labels are put in order by these: of a pandas frame the index names the true
    classes, of a polars frame the first column; the other columns are decisions. Labels that are
    no classes may be their text, as in tables read from files. A frame that was given no labels
    has its rows and columns in order already.

    Args:
        costs: cost of deciding for class j where class i is true, an array (C, C), which is
            given back as it is, or a pandas or polars frame.
        classes: the labels of the C classes.

    Raises:
        ValueError: for a frame whose rows or columns are not the classes, each of them once.
    """
    found = _taken_apart(costs)
    if found is None:
        return costs
    rows, columns, values = found
    known = list(classes)
    truth, decision = _places(rows, known), _places(columns, known)
    if truth is not None and decision is not None:
        return values[np.ix_(truth, decision)]
    if truth is None and decision is None and _unlabelled(rows) and _unlabelled(columns):
        return values
    axis, labels = ("rows", rows) if truth is None else ("columns", columns)
    raise ValueError(
        f"the {axis} of costs must be the classes, each of them once: {_listed(known)}; they are "
        f"{_listed(labels)}. Rows are true classes, columns decisions; an array is taken in the "
        "order of classes_"
    )


def _taken_apart(costs: Any) -> tuple[list[Any], list[Any], np.ndarray] | None:
    """The labels of rows and of columns, and the values, of a frame; None for what is none."""
    if not (hasattr(costs, "columns") and hasattr(costs, "to_numpy")):
        return None
    columns = np.asarray(costs.columns, dtype=object).tolist()
    if hasattr(costs, "index"):
        return costs.index.tolist(), columns, costs.to_numpy()
    if not columns or columns == [f"column_{i}" for i in range(len(columns))]:
        return None  # polars names what has no names like this
    return costs[columns[0]].to_list(), columns[1:], costs.drop(columns[0]).to_numpy()


def _places(labels: list[Any], classes: list[Any]) -> list[int] | None:
    """Where each class is among the labels; None if labels are not the classes, each once."""
    known = {str(label): i for i, label in enumerate(classes)}
    known |= {label: i for i, label in enumerate(classes)}
    found = [known.get(label, known.get(str(label))) for label in labels]
    if len(found) != len(classes) or set(found) != set(range(len(classes))):
        return None
    return [found.index(i) for i in range(len(classes))]


def _unlabelled(labels: list[Any]) -> bool:
    """Whether labels are those of a pandas frame that was given none."""
    return labels == list(range(len(labels)))


def _listed(labels: list[Any]) -> str:
    """Labels for a message."""
    return ", ".join(map(repr, labels[:NAMED])) + (", ..." if len(labels) > NAMED else "")
