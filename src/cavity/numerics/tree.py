"""The arrays of a module: by dotted name, on the host, on a device."""

from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from cavity.numerics.types import PyTree

Tree = TypeVar("Tree")


def is_entry(x: object) -> bool:
    """True if an object counts as one entry of a module or of a shadow tree."""
    return not isinstance(x, eqx.Module | tuple | list | dict) and x is not None


def to_numpy(tree: Tree) -> Tree:
    """A tree with its arrays as numpy arrays, which keep their precision anywhere."""
    return jax.tree.map(lambda a: np.array(a) if eqx.is_array(a) else a, tree)


def on_device(tree: Tree, device: Any) -> Tree:
    """A tree with its arrays on a device."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, device), rest)


def named(tree: PyTree) -> dict[str, Any]:
    """The leaves of a module (or of a shadow tree) by dotted name, in order."""
    entries, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_entry)
    return {dotted(path): leaf for path, leaf in entries}


def with_named(tree: Tree, values: Mapping[str, Any]) -> Tree:
    """The module (or shadow tree) with other leaves at these dotted names."""
    entries, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_entry)
    leaves = [values.get(dotted(path), leaf) for path, leaf in entries]
    return jax.tree_util.tree_unflatten(structure, leaves)


def dotted(path: tuple[Any, ...]) -> str:
    """The name of a leaf from JAX's path to it, such as `kernel.lengthscale`."""
    return jax.tree_util.keystr(path, simple=True, separator=".")
