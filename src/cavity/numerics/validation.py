"""Checks of arrays that come from outside, with messages that say what to do."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from cavity.numerics.forking import refuse_lost_threads
from cavity.numerics.text import plural
from cavity.numerics.types import Array


def float_array(name: str, value: Any) -> Any:
    """The value as a float array of JAX's present precision; numpy unless it was JAX's.

    Raises:
        TypeError: for values that are not numbers, and for float64 values while JAX would
            silently make them float32.
        RuntimeError: in a process that was forked after JAX had computed.
    """
    refuse_lost_threads()
    if isinstance(value, jax.Array | Tracer):
        return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(float)
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold numbers, given values of type {array.dtype}; encode text and "
            "dates as numbers first"
        )
    plain = isinstance(value, list | tuple | int | float)  # made float64 here, not by the caller
    if array.dtype == np.float64 and not plain and not _wide():
        raise TypeError(
            f"{name} is float64, but JAX is in 32-bit mode and would lose half its digits: work "
            "inside `with jax.enable_x64(True):`, or pass float32 on purpose"
        )
    if array.dtype.kind != "f" or (array.dtype == np.float64 and not _wide()):
        array = array.astype(np.float64 if _wide() else np.float32)
    return array


def is_whole(value: object) -> bool:
    """True for a whole number of Python or numpy; truth values are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _wide() -> bool:
    return bool(jax.config.read("jax_enable_x64"))


def check_whole(name: str, value: object, least: int) -> None:
    """Raises ValueError unless the value is a whole number of at least so much."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, given {value!r}")


def check_finite(name: str, array: Array) -> None:
    """Raises ValueError naming the first entry that is NaN or infinite."""
    if isinstance(array, Tracer):
        return
    bad = np.argwhere(~np.isfinite(np.asarray(array)))
    if len(bad):
        place = f"at index [{', '.join(map(str, bad[0]))}]"
        if len(bad) == 1:
            found = f"1 entry that is NaN or infinite, {place}; remove or impute that row"
        else:
            found = f"{len(bad)} entries that are NaN or infinite, the first {place}; "
            found += "remove or impute those rows"
        raise ValueError(f"{name} has {found}")


def check_magnitude(name: str, array: Any, *, small: bool = True) -> None:
    """Raises ValueError where the largest entry has no square at this precision.

    Args:
        name: of the array, for the message.
        array: the array.
        small: whether a largest entry so small that its square is zero is refused, too.
    """
    if isinstance(array, Tracer):
        return
    size = np.abs(np.asarray(array))
    largest = float(np.max(size, initial=0.0))
    limit = float(np.finfo(array.dtype).max) ** (1 / 3)
    if largest > limit or (small and 0.0 < largest < 1.0 / limit):
        extreme = "large" if largest > limit else "small"
        place = ", ".join(map(str, np.argwhere(size == largest)[0]))
        raise ValueError(
            f"the largest entry of {name} is {largest:.1e}, too {extreme} to compute with (at "
            f"index [{place}]); change its units (for example, divide by the standard deviation)"
        )


def check_columns(name: str, array: Array, columns: int | None = None) -> None:
    """Raises ValueError unless the array is a matrix with rows (and that many columns)."""
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a matrix of shape (rows, columns), given shape {array.shape}; a "
            f"single input column is {name}[:, None]"
        )
    if array.shape[0] == 0:
        raise ValueError(f"{name} has no rows; at least one is needed")
    if columns is not None and array.shape[1] != columns:
        raise ValueError(
            f"{name} has {plural(array.shape[1], 'column')}, the model was fitted with {columns}"
        )


def check_side(rows: Mapping[str, Any] | None, n: int) -> dict[str, np.ndarray]:
    """Side data of the rows by name, one value per row.

    Raises:
        ValueError: unless they are finite, and positive where they are noise variances or
            exposures, at least 0 where they are weights.
    """
    found = {}
    for name, given in dict(rows or {}).items():
        values = np.asarray(float_array(name, given))
        if values.shape != (n,):
            raise ValueError(
                f"{name} must have one value per row, ({n},), given shape {values.shape}"
            )
        wanted, fine = "finite", np.isfinite(values)
        if name in ("noise_variance", "exposure"):
            wanted, fine = "positive and finite", fine & (values > 0.0)
        elif name == "weight":
            wanted, fine = "at least 0 and finite", fine & (values >= 0.0)
        if not np.all(fine):
            row = np.flatnonzero(~fine)[0]
            raise ValueError(
                f"{name} must be {wanted} in every row; row {row} (counted from 0) has "
                f"{values[row]:g}"
            )
        found[name] = values
    return found


def check_side_names(given: Iterable[str], known: Sequence[str], what: str) -> None:
    """Raises ValueError for side data that nobody reads."""
    strange = sorted(set(given) - set(known))
    if strange:
        wanted = ", ".join(known) if known else "none"
        raise ValueError(f"rows has unknown side data {strange}; known for {what}: {wanted}")
