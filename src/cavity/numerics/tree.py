"""The arrays of a module by dotted name."""

from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax

from cavity.numerics.types import PyTree

Tree = TypeVar("Tree")


def is_entry(x: object) -> bool:
    """True if an object counts as one entry of a module or of a shadow tree."""
    return not isinstance(x, eqx.Module | tuple | list | dict) and x is not None


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
