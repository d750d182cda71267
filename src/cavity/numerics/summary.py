"""Parameters of a module by name, and the table that printing a model shows."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from cavity.parameters import bijections
from cavity.priors import flat


def _is_entry(x: Any) -> bool:
    return not isinstance(x, eqx.Module | tuple | list | dict) and x is not None


def named(tree: Any) -> dict[str, Any]:
    """The leaves of a module (or of a shadow tree) by dotted name, in order."""
    entries, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=_is_entry)
    return {_name(path): leaf for path, leaf in entries}


def _name(path: tuple[Any, ...]) -> str:
    parts = []
    for key in path:
        part = getattr(key, "name", getattr(key, "idx", getattr(key, "key", key)))
        parts.append(str(part))
    return ".".join(parts)


def table(model: Any, bijection_tree: Any = None, prior_tree: Any = None) -> str:
    """A plain-text table of a model's parameters: name, value, domain and prior.

    Args:
        model: the model.
        bijection_tree: what `bijections(model)` gives, possibly edited; None for the default.
        prior_tree: what `priors.flat(model)` gives, possibly edited; None for flat priors.
    """
    maps = named(bijections(model) if bijection_tree is None else bijection_tree)
    densities = named(flat(model) if prior_tree is None else prior_tree)
    rows = [("parameter", "value", "domain", "prior")]
    for name, value in named(model).items():
        rows.append((name, _show(value), str(maps[name]), str(densities[name])))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)) for r in rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in lines)


def _show(value: Any) -> str:
    if isinstance(value, Tracer):
        return f"traced {value.shape}"
    array = np.asarray(value)
    if array.size > 8:
        shape = " x ".join(map(str, array.shape))
        return f"[{shape}] from {array.min():.4g} to {array.max():.4g}"
    return np.array2string(array, precision=4, separator=", ", suppress_small=False)
