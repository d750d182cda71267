"""Identities with their errors and bounds, as rows of a csv file."""

from collections.abc import Iterable
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from benchmarks.results import Table
from cavity.numerics.types import PyTree

TABLE = Table("distributed_identities.csv", ("identity", "case", "power", "processes"))
# The bound of what must be the same to the last bit.
BITS = 0.0


class Said(NamedTuple):
    """What an identity says of a case.

    Attributes:
        identity: what must be the same.
        case: of which likelihood.
        power: the power.
        processes: how many work on the parts.
        error: the largest difference; of bits the number of numbers that differ.
        bound: what it may be.
    """

    identity: str
    case: str
    power: float
    processes: int
    error: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the error is within the bound; an undefined one is not."""
        return self.error <= self.bound


def relative(ours: ArrayLike, theirs: ArrayLike) -> float:
    """The largest difference, relative to the largest number; NaN where it is undefined."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if ours.shape != theirs.shape or not ours.size:
        return np.nan
    difference = float(np.max(np.abs(ours - theirs)))
    return difference / float(np.max(np.abs(theirs))) if difference else 0.0


def differing(ours: PyTree, theirs: PyTree) -> int:
    """How many numbers of two trees have not the same bits."""
    pairs = list(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))
    assert pairs
    return sum(_differing(np.asarray(a), np.asarray(b)) for a, b in pairs)


def _differing(a: np.ndarray, b: np.ndarray) -> int:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return max(a.size, b.size)
    different = np.frombuffer(a.tobytes(), np.uint8) != np.frombuffer(b.tobytes(), np.uint8)
    return int(different.reshape(a.size, -1).any(axis=1).sum()) if a.size else 0


def record(said: Iterable[Said]) -> int:
    """Prints and keeps what comes, and counts what does not hold."""
    failed = 0
    for each in said:
        TABLE.add(each._asdict() | {"holds": each.holds})
        failed += not each.holds
        told = "" if each.holds else "   FAILS"
        who = f"{each.case} at power {each.power:g} on {each.processes}"
        print(f"{each.identity}: {who}: {each.error:.2g} <= {each.bound:g}{told}", flush=True)
    return failed
