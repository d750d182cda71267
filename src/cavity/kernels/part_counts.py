"""Counted rows: inputs with a note of which of their parts are distinct, and where each is.

Where parts of an input repeat, as blank patches of an image do, a sum over parts is one over the
distinct ones with their weights added up. A counted row is

    pixels (D) | number of the parts (1) | distinct part of each part (P) | distinct parts (U)

with U the largest number of distinct parts of any input, so that all rows have one shape. The
last two are numbers of parts, in the place of their contents.
"""

import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.kernels.parts import AbstractParts
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float


def count_parts(parts: AbstractParts, X: Any, size: int | None = None) -> np.ndarray:
    """Counted rows: inputs of which `kernels.SumOver` sees every distinct part once.

    The kernel is the same, and takes plain and counted rows: a sum over P parts of which U differ
    costs U in the place of P, and its variances U² in the place of P². Rows that are counted for
    some parts and given to others have covariances that are NaN. Parts with positions are all
    distinct.

    Args:
        parts: what takes the inputs apart.
        X: inputs, (N, D).
        size: U, distinct parts that rows have room for, at least as many as any input has; None
            for the largest number of these inputs. All rows of a model need the same.

    Returns:
        (N, D + 1 + P + U).

    Raises:
        ValueError: where inputs have another number of columns, for too small a size, and for
            parts that change as they are learned, as those of `Warps` do.

    References:
        van der Wilk (2018), items 64 and 70.
    """
    X = np.asarray(X)
    parts.check(X)
    if not parts.countable:
        raise ValueError(
            f"{parts} change as their parameters are learned, so that they cannot be counted: "
            "give the model the images themselves"
        )
    found = [_distinct(np.asarray(each)) for each in map(parts, X)]
    most = max((len(first) for first, _ in found), default=1)
    size = most if size is None else size
    if not most <= size <= parts.size:
        raise ValueError(
            f"inputs have up to {plural(most, 'distinct part')} of {parts.size}: give a size from "
            f"{most} to {parts.size}, given {size}"
        )
    first = np.zeros((len(X), size), X.dtype)
    for row, (mine, _) in zip(first, found, strict=True):
        row[: len(mine)] = mine
    where = np.array([of for _, of in found], X.dtype).reshape(len(X), parts.size)
    return np.concatenate([X, np.full((len(X), 1), _number(parts), X.dtype), where, first], axis=1)


def check_inputs(parts: AbstractParts, X: Float[Array, "N D"]) -> None:
    """Raises ValueError where inputs are neither plain nor counted rows."""
    if X.ndim != 2 or not 1 <= _room(parts, X.shape[1]) <= parts.size:
        parts.check(X)


def taken_apart(
    parts: AbstractParts, x: Float[Array, " D"], weights: Float[Array, " P"]
) -> tuple[Float[Array, "U E"], Float[Array, " U"]]:
    """The parts of a plain row, or the distinct parts of a counted one, and their weights."""
    size = _room(parts, x.shape[0])
    if size < 1:
        return parts(x), weights
    start = parts.columns + 1
    where, first = (
        a.astype(jnp.int32) for a in (x[start : start + parts.size], x[start + parts.size :])
    )
    known = x[parts.columns] == _number(parts)
    added = jax.ops.segment_sum(weights, where, num_segments=size)
    return parts(x[: parts.columns], first), jnp.where(known, added, jnp.nan)


def _room(parts: AbstractParts, columns: int) -> int:
    """The distinct parts that rows of so many columns have room for; below 1 for plain rows."""
    return columns - parts.columns - 1 - parts.size if parts.countable else 0


def _number(parts: AbstractParts) -> int:
    """A number by which rows counted for other parts are known; exact in float32."""
    return zlib.crc32(repr(parts).encode()) % 2**20


def _distinct(each: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of every kind of parts, (U,), and the kind of each part, (P,)."""
    each = np.ascontiguousarray(each) + 0.0  # a zero with a sign is a zero
    whole = each.view([("", f"V{each.dtype.itemsize * each.shape[1]}")]).ravel()
    _, first, of = np.unique(whole, return_index=True, return_inverse=True)
    return first, of
