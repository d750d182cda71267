"""Costs of decisions in the order of the classes, whatever table they come in."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

# Labels that a message names one by one.
NAMED = 10


@runtime_checkable
class Frame(Protocol):
    """A data frame, of pandas or of polars."""

    @property
    def columns(self) -> Iterable[object]: ...

    def to_numpy(self) -> np.ndarray: ...


@runtime_checkable
class IndexedFrame(Frame, Protocol):
    """A data frame whose rows have labels, as in pandas."""

    @property
    def index(self) -> Iterable[object]: ...


def align_costs(costs: object, classes: Sequence[object]) -> object:
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
    if not isinstance(costs, Frame):
        return costs
    columns, values = list(costs.columns), costs.to_numpy()
    if isinstance(costs, IndexedFrame):
        rows = list(costs.index)
    elif columns == [f"column_{i}" for i in range(len(columns))]:
        return costs  # polars names what has no names like this
    else:
        rows, columns, values = values[:, 0].tolist(), columns[1:], values[:, 1:]
    truth, decision = _order(rows, classes), _order(columns, classes)
    if truth is not None and decision is not None:
        return values[np.ix_(truth, decision)]
    if all(labels == list(range(len(labels))) for labels in (rows, columns)):
        return values
    axis, labels = ("rows", rows) if truth is None else ("columns", columns)
    raise ValueError(
        f"the {axis} of costs must be the classes, each of them once: {_listed(classes)}; they "
        f"are {_listed(labels)}. Rows are true classes, columns decisions; an array is taken in "
        "the order of classes_"
    )


def _order(labels: Sequence[object], classes: Sequence[object]) -> list[int] | None:
    """Position of each class among the labels; None if labels are not the classes, each once."""
    by_text = {str(label): label for label in classes}
    named = [label if label in classes else by_text.get(str(label)) for label in labels]
    if len(named) != len(classes) or any(label not in named for label in classes):
        return None
    return [named.index(label) for label in classes]


def _listed(labels: Sequence[object]) -> str:
    """Labels for a message."""
    return ", ".join(map(repr, labels[:NAMED])) + (", ..." if len(labels) > NAMED else "")
