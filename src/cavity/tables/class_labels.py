"""The classes of a target column: their names, and the place of each cell among them.

Classes are known by their text. A truth value is called false or true, a whole number has no
decimal point, so that the same column has the same classes in a csv and in a parquet file.
"""

import re
from typing import Any

import numpy as np

from cavity.columns import cells
from cavity.columns.encoder import Column
from cavity.columns.frames import Series
from cavity.estimators.kept import plain
from cavity.persistence.errors import StorageError
from cavity.persistence.typed_values import WrongValue

_TRUTH = ("false", "true")
WHOLE = re.compile(r"-?\d+")


def classes_of(column: Series, kind: cells.Kind) -> tuple[str, ...]:
    """The names of the classes that a column holds, sorted as its values are."""
    if kind == "categorical":
        return cells.distinct(column)
    values = cells.booleans(column) if kind == "boolean" else cells.numbers(column)
    present = np.unique(values[np.isfinite(values)]).tolist()
    return tuple(_TRUTH[int(v)] if kind == "boolean" else _number(v) for v in present)


def class_positions(column: Series, kind: cells.Kind, classes: tuple[str, ...]) -> np.ndarray:
    """The place of each cell among the classes, one past the last if new, NaN if missing."""
    if kind == "categorical":
        return cells.positions(column, classes)
    values = cells.booleans(column) if kind == "boolean" else cells.numbers(column)
    known = {value: float(i) for i, value in enumerate(class_values(kind, classes))}
    places = [known.get(v, float(len(known))) for v in values.tolist()]
    return np.where(np.isnan(values), np.nan, places)


def class_values(kind: cells.Kind, classes: tuple[str, ...]) -> list[Any]:
    """The classes as the cells of a table hold them: text, truth values or numbers."""
    if kind == "categorical":
        return list(classes)
    if kind == "boolean":
        return [name == "true" for name in classes]
    if all(WHOLE.fullmatch(name) for name in classes):
        return [int(name) for name in classes]
    return [float(name) for name in classes]


def labels_of_type(values: list[Any], kind: str | None) -> np.ndarray:
    """Labels as an array.

    Args:
        values: the labels, sorted.
        kind: the name of the type that the array had; None for that of the labels.

    Raises:
        WrongValue: for a type that labels do not have.
    """
    if kind is None:
        return np.array(values)
    try:
        dtype = np.dtype(kind)
    except TypeError:
        raise WrongValue(f"its labels have the type {kind}") from None
    if dtype.kind not in "OUTifub":
        raise WrongValue(f"its labels have the type {kind}")
    return np.array(values, dtype)


def class_column(name: str, labels: np.ndarray) -> Column:
    """The column of labels of an estimator: text, truth values or numbers.

    Args:
        name: of the column.
        labels: the different ones, sorted.

    Raises:
        StorageError: for others, which no table holds.
    """
    values = [plain(label) for label in labels.tolist()]
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return Column(name, "categorical", tuple(values))
    if kinds == {bool}:
        return Column(name, "boolean", tuple(_TRUTH[int(value)] for value in values))
    if kinds == {int}:
        return Column(name, "numeric", tuple(map(str, values)))
    if kinds <= {int, float}:
        return Column(name, "numeric", tuple(_number(float(value)) for value in values))
    raise StorageError(
        f"a model file holds labels that are text, truth values or numbers, given {values[:3]}"
    )


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
