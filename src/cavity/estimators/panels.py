"""Several series in one table, and arrays with an axis of series in front."""

from typing import Any

import numpy as np

from cavity.numerics.text import plural
from cavity.numerics.validation import check_magnitude


def series_of(labels: Any, rows: int) -> tuple[np.ndarray, tuple[Any, ...]]:
    """The number of the series of every row, (T,), and the labels in the order of their rows.

    Args:
        labels: of the series of every row.
        rows: how many there are.

    Raises:
        ValueError: for another number of labels, missing ones, rows of a series that do not follow
            each other, and series of one row only.
    """
    given = list(np.asarray(labels, object).ravel())
    if len(given) != rows:
        raise ValueError(f"series must have one label per row, {rows} of them, given {len(given)}")
    missing = [row for row, label in enumerate(given) if label is None or label != label]
    if missing:
        raise ValueError(f"series is missing in row {missing[0]}: give every row a label")
    names = tuple(dict.fromkeys(given))
    places = {name: number for number, name in enumerate(names)}
    numbers = np.array([places[label] for label in given], float)
    if np.any(np.diff(numbers) < 0.0):
        row = int(np.argmax(np.diff(numbers) < 0.0)) + 1
        raise ValueError(
            f"the rows of series {given[row]!r} do not follow each other: sort the table by "
            "series, then by time"
        )
    if rows == len(names):
        raise ValueError("every series has one row, so there are no dynamics to learn")
    return numbers, names


def stacked(name: str, values: Any, series: int, columns: int) -> np.ndarray:
    """An array with an axis of series in front, (S, n, C), NaN where missing.

    Args:
        name: of the array, in messages.
        values: (S, n, C); (S, n) where there is one column.
        series: how many.
        columns: how many.

    Raises:
        ValueError: for another shape, for text, and for infinite values.
    """
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from None
    array = array[..., None] if array.ndim == 2 and columns == 1 else array
    if array.ndim != 3 or array.shape[::2] != (series, columns) or not array.shape[1]:
        raise ValueError(
            f"the fit had {plural(series, 'series', 'series')}, so {name} must have an axis of "
            f"them in front: shape ({series}, rows, {columns}), given {np.shape(values)}"
        )
    check_magnitude(name, np.nan_to_num(array, posinf=np.inf, neginf=-np.inf), small=False)
    return array
