"""A predictive function seen along one column of a table, the others held at typical values."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.columns.encoder import Column
from cavity.tables.schema import Schema

MOST_LEVELS = 12  # of a categorical column, the most frequent ones
FEW_ROWS = 100  # from here on, the outermost rows of a numeric column are left out


@dataclasses.dataclass(frozen=True, eq=False)
class Slice:
    """Inputs that differ in one column of the table only.

    Attributes:
        column: the column.
        X: inputs, (n, D).
        places: the column's values, (n,), dates as dates; empty unless it is numeric.
        levels: the names of its values, (n,); empty if it is numeric.
        data: the column's values in the table, (N,), dates as dates; empty unless it is numeric.
    """

    column: Column
    X: np.ndarray
    places: np.ndarray
    levels: tuple[str, ...]
    data: np.ndarray


def blocks(schema: Schema) -> list[slice]:
    """Slices of X that hold the features of each input column."""
    found, start = [], 0
    for column in schema.inputs:
        found.append(slice(start, start + column.width))
        start += column.width
    return found


def typical_inputs(schema: Schema, X: np.ndarray) -> np.ndarray:
    """The median of each numeric column and the most frequent value of each other one, (D,)."""
    typical = np.median(X, axis=0)
    for column, block in zip(schema.inputs, blocks(schema), strict=True):
        if column.kind == "categorical":
            share = X[:, block].mean(axis=0)
            none_known = 1.0 - share.sum() > share.max(initial=0.0)
            most = np.arange(len(share)) == np.argmax(share)
            typical[block] = 0.0 if none_known else most
        elif column.kind == "boolean":
            typical[block] = X[:, block].mean() > 0.5
    return typical


def slices(
    schema: Schema, X: np.ndarray, points: int, columns: Sequence[str] | None = None
) -> list[Slice]:
    """A slice along every column that has at least two different values.

    Args:
        schema: of the model.
        X: inputs of the table, (N, D).
        points: places along a numeric column.
        columns: names of those to have, in this order, be they constant or not; None for all.
    """
    typical = typical_inputs(schema, X)
    found, nothing = [], np.zeros(0)
    each = zip(schema.inputs, blocks(schema), strict=True)
    if columns is not None:
        named = {column.name: (column, block) for column, block in each}
        each = (named[name] for name in columns)
    for column, block in each:
        values = X[:, block]
        if columns is None and np.all(values == values[0]):
            continue
        if column.kind == "numeric":
            places = _places(values[:, 0], points)
            inputs = _moved(typical, block, places[:, None])
            along, data = (schema.shown(column.name, v) for v in (places, values[:, 0]))
            found.append(Slice(column, inputs, along, (), data))
            continue
        inside, levels = np.array([[0.0], [1.0]]), ("false", "true")
        if column.kind == "categorical":
            frequent = np.sort(np.argsort(-values.sum(axis=0), kind="stable")[:MOST_LEVELS])
            inside = np.eye(values.shape[1])[frequent]
            levels = tuple(column.categories[i] for i in map(int, frequent))
        found.append(Slice(column, _moved(typical, block, inside), nothing, levels, nothing))
    return found


def _places(values: np.ndarray, points: int) -> np.ndarray:
    """Even places over the range of the data; one wild value among many does not stretch it."""
    ends = (0.01, 0.99) if len(values) >= FEW_ROWS else (0.0, 1.0)
    low, high = np.quantile(values, ends)
    if low == high:
        low, high = values.min(), values.max()
    return np.linspace(low, high, points)


def _moved(typical: np.ndarray, block: slice, inside: np.ndarray) -> np.ndarray:
    """The typical row once for every row of `inside`, which takes its place in one block."""
    X = np.tile(typical, (len(inside), 1))
    X[:, block] = inside
    return X


def in_one_go(
    cuts: Sequence[Slice], predict: Any, bands: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Means (n, P) and quantiles (n, P, Q) of each slice, from one prediction.

    Args:
        cuts: the slices.
        predict: takes inputs, and gives their predictions.
        bands: the levels of the quantiles.
    """
    out = predict(np.concatenate([cut.X for cut in cuts]))
    ends = np.cumsum([len(cut.X) for cut in cuts])[:-1]
    means, quantiles = np.split(out.mean, ends), np.split(out.quantiles(bands), ends)
    return list(zip(means, quantiles, strict=True))
