"""Fingerprints of arrays, and texts of settings, by which a checkpoint knows its fit again."""

import hashlib
import re
import sys
from collections.abc import Iterable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree


def fingerprint(tree: PyTree) -> str:
    """A hash of the arrays of a tree and of its structure."""
    sha = hashlib.sha256(_without_addresses(str(jax.tree.structure(tree))).encode())
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        sha.update(f"{array.dtype.str} {array.shape}\n".encode())
        sha.update(array.tobytes())
    return f"sha256 {sha.hexdigest()}"


def checksum(arrays: Iterable[np.ndarray], start: int) -> int:
    """A number of 64 bits that any changed row changes; those of consecutive rows are added.

    It takes a small share of the time of reading them, and sees no change that is made on purpose.

    Args:
        arrays: of numbers, with the same rows, (N,) or (N, K).
        start: the place of the first row.
    """
    found = column = 0
    for array in arrays:
        bits = array.reshape(len(array), -1)
        bits = bits.view(f"u{bits.dtype.itemsize}").astype(np.uint64, copy=False)
        end = column + bits.shape[1]
        # factors are odd, so that no bit of a number is lost
        own = bits @ (2 * np.arange(column, end, dtype=np.uint64) + np.uint64(1))
        places = 2 * np.arange(start, start + len(own), dtype=np.uint64) + np.uint64(1)
        found, column = found + int(own @ places), end
    return found


def to_text(value: object, *, arrays: bool = True) -> str:
    """Settings, or the structure of a model, as text that is the same in every process."""
    with np.printoptions(precision=17, threshold=sys.maxsize):
        text = eqx.tree_pformat(value, short_arrays=not arrays)
    return _without_addresses(text)


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)
