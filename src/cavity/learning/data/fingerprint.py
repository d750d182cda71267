"""Fingerprints of arrays, and texts of settings, by which a checkpoint knows its fit again."""

import hashlib
import re
import sys

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


def to_text(value: object, *, arrays: bool = True) -> str:
    """Settings, or the structure of a model, as text that is the same in every process."""
    with np.printoptions(precision=17, threshold=sys.maxsize):
        text = eqx.tree_pformat(value, short_arrays=not arrays)
    return _without_addresses(text)


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)
