"""Work over the rows of a table in chunks of bounded memory, and shapes that repeat."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, PyTree

Tree = TypeVar("Tree")
Result = TypeVar("Result")

CHUNK = 2048
WHOLE = 8192
# Small tables are padded to this, and up to `FEW` rows to a power of two: compiling once costs
# more than all that is computed in vain.
SMALLEST, FEW = 64, 512
# With more columns than this it does not.
MANY_COLUMNS = 256
# Values whose nodes of a one-dimensional integral stay in the processor's cache.
ENTRIES = 512
# Rows at a time whose matrices stay in the processor's cache, and those that keep a GPU busy.
CACHED = (1024, 512, 256, 128)
BUSY = (8192, 4096, 2048)


def repeating_size(n: int) -> int:
    """`n` rounded up to one of eight sizes per doubling: at most 12.5 % more."""
    step = 1 << max(n.bit_length() - 4, 0)
    return -(-n // step) * step


def padded_size(n: int, row_size: int = 1, columns: int = 1) -> int:
    """The number of rows that a table of `n` rows is padded to.

    Tables of similar length share one compiled program. Up to `FEW` rows it is a power of two,
    except with many columns; beyond `WHOLE` values it is a multiple of the chunk as well.

    Args:
        n: rows, at least 1.
        row_size: values in a row (the rows of a block).
        columns: how many the inputs have.
    """
    size = repeating_size(n)
    if row_size == 1 and n <= FEW and columns <= MANY_COLUMNS:
        size = max(1 << (n - 1).bit_length(), SMALLEST)
    chunk = chunk_size(size, row_size)
    return -(-size // chunk) * chunk


def chunk_size(n: int, row_size: int = 1) -> int:
    """Rows worked on at a time: all of them up to `WHOLE` values, a power of two above."""
    if n * row_size <= WHOLE:
        return n
    return max(1 << (max(CHUNK // row_size, 1).bit_length() - 1), 1)


def cached_size(n: int) -> int:
    """Rows worked on at a time, where the table can be cut so: they stay in the cache.

    Off the CPU, where products of few rows leave the device idle, there are more of them.
    """
    sizes = CACHED if jax.default_backend() == "cpu" else BUSY + CACHED
    return next((size for size in sizes if n % size == 0), n)


def split(rows: Tree, chunk: int) -> Tree:
    """Rows as chunks: one axis more in front. Their number is a multiple of `chunk`."""
    return jax.tree.map(lambda x: x.reshape(len(x) // chunk, chunk, *x.shape[1:]), rows)


def _length(rows: PyTree) -> int:
    return jax.tree.leaves(rows)[0].shape[0]


def sum_over_rows(fn: Callable[[Tree], Result], rows: Tree, chunk: int) -> Result:
    """The sum over chunks of `fn(chunk of rows)`, with the memory of one chunk.

    Args:
        fn: takes a part of `rows` and gives a pytree of arrays, to be added.
        rows: pytree of arrays with a common leading axis, a multiple of `chunk` if longer.
        chunk: rows at a time. The backward pass computes each chunk anew.
    """
    if _length(rows) <= chunk:
        return fn(rows)
    parts = split(rows, chunk)

    def step(total: Result, part: Tree) -> tuple[Result, None]:
        return jax.tree.map(jnp.add, total, fn(part)), None

    shape = jax.eval_shape(fn, jax.tree.map(lambda x: x[0], parts))
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape)
    total, _ = jax.lax.scan(jax.checkpoint(step), zero, parts)
    return total


def map_over_rows(fn: Callable[[Tree], Result], rows: Tree, chunk: int) -> Result:
    """`fn` of each chunk of rows, its results joined along the leading axis."""
    if _length(rows) <= chunk:
        return fn(rows)
    out = jax.lax.map(fn, split(rows, chunk))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)


def map_over_entries(fn: Callable[[Tree], Result], rows: Tree, entries: int = ENTRIES) -> Result:
    """`fn` of about `entries` values at a time, results joined; of all at once off the CPU.

    Args:
        fn: works on values one by one, whatever their number along the leading axis.
        rows: pytree of arrays with a common leading axis, of which the first is the largest.
        entries: the number of values.
    """
    first = jax.tree.leaves(rows)[0]
    if first.size <= 2 * entries or jax.default_backend() != "cpu":
        return fn(rows)
    count = len(first)
    each = max(entries // (first.size // count), 1)
    missing = -count % each

    def padded(x: Array) -> Array:
        return jnp.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1), mode="edge")

    out = map_over_rows(fn, jax.tree.map(padded, rows), each)
    return jax.tree.map(lambda x: x[:count], out)
