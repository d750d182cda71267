"""Conversion of the user's arrays to padded rows."""

import dataclasses
import reprlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.graph.rows import SLOPES, WEIGHT, Rows
from cavity.inference.variables.chain import PADDING, SERIES
from cavity.learning.data.training_data import Data
from cavity.numerics.chunking import chunk_size, padded_size, repeating_size
from cavity.numerics.text import plural
from cavity.numerics.types import Array
from cavity.numerics.validation import (
    check_columns,
    check_finite,
    check_magnitude,
    check_side,
    float_array,
)

# Side data of rows that are only padding; 1 for all others.
PADDED = {SERIES: PADDING, SLOPES: -1.0}


def prepare(
    X: ArrayLike,
    y: ArrayLike,
    *,
    power: ArrayLike = 0.5,
    blocks: ArrayLike | None = None,
    rows: Mapping[str, ArrayLike] | None = None,
    missing: str = "error",
) -> Data:
    """Checks data and lays them out for inference.

    Args:
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P).
        power: a number in [0, 1], or one per row (with blocks: one per row, equal in a block).
        blocks: one integer label per row, or None.
        rows: side data, by name, (N,) each: "noise_variance", "exposure", "slope_of", "weight".
            A row of weight w counts as w rows that are alike, one of weight 0 not at all.
        missing: "error", or "skip" to leave out outputs that are NaN.

    Raises:
        ValueError: for unusable data, saying what was given and what to do.
        TypeError: for data that are not numbers, or float64 data in 32-bit mode.
    """
    checked, single = check_arrays(X, y, rows, missing)
    length = len(checked.x)
    shared, row_powers = check_power(power, length)
    checked = dataclasses.replace(checked, power=row_powers)
    if blocks is None:
        padded = pad_rows(checked, padded_size(length, columns=checked.x.shape[-1]))
    else:
        padded = _pad_blocks(checked, check_blocks(blocks, length))
    return to_device(padded, shared, single=single, length=length)


def check_arrays(
    X: ArrayLike, y: ArrayLike, rows: Mapping[str, ArrayLike] | None, missing: str
) -> tuple[Rows, bool]:
    """The arrays as rows without padding, and whether y was a vector; see `prepare`.

    Raises:
        ValueError: for unusable data, saying what was given and what to do.
        TypeError: for data that are not numbers, or float64 data in 32-bit mode.
    """
    inputs, outputs = float_array("X", X), float_array("y", y)
    check_columns("X", inputs)
    check_finite("X", inputs)
    columns, presence = _outputs(outputs, inputs.shape[0], missing)
    check_magnitude("X", inputs)
    check_magnitude("y", columns)
    side = check_side(rows, inputs.shape[0])
    presence = _weighted(presence, side.pop(WEIGHT, None))
    # single precision only where both are
    wide = np.promote_types(inputs.dtype, columns.dtype)
    checked = _host_rows(np.asarray(inputs, wide), columns, presence, side, None)
    return checked, outputs.ndim == 1


def _weighted(presence: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """The presence of outputs in rows that have weights.

    Raises:
        ValueError: where no output is left.
    """
    if weights is None:
        return presence
    found = presence * weights[:, None].astype(presence.dtype)
    if not np.any(found):
        raise ValueError(
            "every row with an observed output has weight 0; at least one weight must be positive"
        )
    return found


def without_columns(X: object, y: ArrayLike | None, *, empty_rows: bool) -> np.ndarray:
    """Inputs without columns, for a model of outputs alone.

    Args:
        X: inputs, which must be None.
        y: outputs.
        empty_rows: whether rows may have no value.

    Raises:
        ValueError: where inputs are given, for outputs of another shape, and where a row or
            column of them has no value.
    """
    if X is not None or y is None:
        raise ValueError(
            "this model has no inputs and needs its rows in memory: give None in the place of X, "
            "and outputs Y, as in cavity.fit(model, None, Y)"
        )
    outputs = np.asarray(float_array("y", y))
    if outputs.ndim not in (1, 2) or not outputs.size:
        raise ValueError(
            "Y must have shape (rows, outputs) with a row and an output at least, given "
            f"{outputs.shape}"
        )
    absent = np.isnan(outputs.reshape(len(outputs), -1))
    for axis, what in ((0, "column"),) if empty_rows else ((1, "row"), (0, "column")):
        empty = np.flatnonzero(np.all(absent, axis=axis))
        if len(empty):
            raise ValueError(
                f"{what} {empty[0]} of Y (counted from 0) has no observed value: leave it out"
            )
    return np.zeros((len(outputs), 0), outputs.dtype)


def _host_rows(
    x: np.ndarray,
    y: np.ndarray,
    presence: np.ndarray,
    side: dict[str, np.ndarray],
    power: np.ndarray | None,
) -> Rows:
    """Rows whose arrays are numpy's, before they go to the device."""
    arrays: dict[str, Any] = {"x": x, "y": y, "presence": presence, "side": side, "power": power}
    return Rows(**arrays)


def to_device(padded: Rows, power: float | None, *, single: bool, length: int) -> Data:
    """Data of padded rows, their arrays on the device.

    Args:
        padded: the rows.
        power: of all rows, a Python number, or None where rows have their own.
        single: whether y was a vector.
        length: rows without padding.
    """
    dtype = padded.x.dtype
    laid = jax.tree.map(lambda a: jnp.asarray(a, dtype), padded)
    row_size = laid.x.shape[1] if laid.blocked else 1
    traced = power if power in (None, 0.0, 1.0) else jnp.asarray(power, dtype)
    chunk = chunk_size(laid.x.shape[0], row_size)
    return Data(laid, 0.0 if traced is None else traced, chunk, single, np.asarray(length))


def _outputs(y: Array, n: int, missing: str) -> tuple[np.ndarray, np.ndarray]:
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (rows,) or (rows, outputs), given {y.shape}")
    if y.shape[0] != n:
        raise ValueError(
            f"X has {plural(n, 'row')} but y has {y.shape[0]}; they must match row by row"
        )
    columns = np.asarray(y)[:, None] if y.ndim == 1 else np.asarray(y)
    if columns.shape[1] == 0:
        raise ValueError("y has no output columns; at least one is needed")
    if missing not in ("error", "skip"):
        raise ValueError(f'missing must be "error" or "skip", given {missing!r}')
    absent = np.isnan(columns)
    if missing == "error" or np.any(np.isinf(columns)):
        check_finite("y", columns)  # type: ignore[arg-type]
    if np.all(absent):
        raise ValueError("every output is missing; at least one must be observed")
    shared = bool(np.all(absent == absent[:, :1]))
    present = 1.0 - (absent[:, :1] if shared else absent).astype(columns.dtype)
    # the first output observed stands for a missing one, as it is within the support
    first = columns[np.argmin(absent, axis=0), np.arange(columns.shape[1])]
    return np.where(absent, np.nan_to_num(first), columns), present


def check_power(power: object, n: int) -> tuple[float | None, np.ndarray | None]:
    """The power of all rows, or one number per row; None in the place of the other.

    Raises:
        ValueError: for what is no number, outside [0, 1], or of a wrong shape.
    """
    try:
        values = np.asarray(power)
    except ValueError:  # lists of different lengths
        values = np.asarray(None)
    if values.dtype.kind not in "fiub":
        raise ValueError(
            f"power must be a number in [0, 1], or one per row; given {reprlib.repr(power)}"
        )
    values = values.astype(np.float64)
    if values.shape not in ((), (n,)):
        raise ValueError(
            f"power must be one number or one per row, ({n},), given shape {values.shape}"
        )
    if not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(
            f"power must lie in [0, 1] (0 variational, 1 expectation propagation), given {power}"
        )
    return (float(values), None) if values.ndim == 0 else (None, values)


def check_blocks(blocks: ArrayLike, n: int) -> np.ndarray:
    """Block labels as integers 0..K-1.

    Raises:
        ValueError: unless there is one integer label per row.
    """
    labels = np.asarray(blocks)
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"blocks must be one integer label per row, shape ({n},), given shape "
            f"{labels.shape} of {labels.dtype}"
        )
    return np.unique(labels, return_inverse=True)[1]


def pad_rows(rows: Rows, size: int) -> Rows:
    """Rows, with more that are only padding, `size` in all."""
    more = size - len(rows.x)

    def fill(a: Array, value: ArrayLike) -> np.ndarray:
        return np.concatenate([a, np.full((more, *a.shape[1:]), value, a.dtype)])

    inputs = np.concatenate([rows.x, np.repeat(rows.x[:1], more, axis=0)])
    side = {name: fill(values, PADDED.get(name, 1.0)) for name, values in rows.side.items()}
    # of the first row, so that padding is within the support of the likelihood
    y, presence = fill(rows.y, rows.y[0]), fill(rows.presence, 0.0)
    powers = None if rows.power is None else fill(rows.power, 0.5)
    return _host_rows(inputs, y, presence, side, powers)


def _pad_blocks(rows: Rows, labels: np.ndarray) -> Rows:
    counts = np.bincount(labels)
    size = repeating_size(int(counts.max()))
    shape = (padded_size(len(counts), size), size)
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    column = np.arange(len(labels)) - np.repeat(starts, counts)
    positions = (labels[order], column)

    def lay(a: Array, value: ArrayLike) -> np.ndarray:
        out = np.empty((*shape, *a.shape[1:]), a.dtype)
        out[...] = value
        out[positions] = a[order]
        return out

    block_powers = None
    if rows.power is not None:
        lowest, highest = np.full(shape[0], np.inf), np.full(shape[0], -np.inf)
        np.minimum.at(lowest, labels, rows.power)
        np.maximum.at(highest, labels, rows.power)
        if np.any(lowest[: len(counts)] != highest[: len(counts)]):
            raise ValueError("the rows of a block must share one power")
        block_powers = np.where(np.isfinite(lowest), lowest, 0.5)
    side = {name: lay(values, PADDED.get(name, 1.0)) for name, values in rows.side.items()}
    inputs, presence = lay(rows.x, rows.x[0]), lay(rows.presence, 0.0)
    return _host_rows(inputs, lay(rows.y, 0.0), presence, side, block_powers)
