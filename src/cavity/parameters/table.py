"""The table that printing a model shows."""

import numpy as np
from jax.core import Tracer

from cavity.numerics.text import aligned
from cavity.numerics.tree import named
from cavity.numerics.types import Array, PyTree
from cavity.parameters import Bijection, bijections
from cavity.parameters.priors import Prior, flat


def table(model: PyTree, bijection_tree: PyTree = None, prior_tree: PyTree = None) -> str:
    """A plain-text table of a model's parameters: name, value, domain and prior.

    Args:
        model: the model; of its bijections or its priors, these are shown by name.
        bijection_tree: what `bijections(model)` gives, possibly edited; None for the default.
        prior_tree: what `priors.flat(model)` gives, possibly edited; None for flat priors.
    """
    found = named(model)
    if any(isinstance(value, Bijection | Prior) for value in found.values()):
        # the bijections or priors of a model
        return aligned([(name, str(value)) for name, value in found.items()])
    maps = named(bijections(model) if bijection_tree is None else bijection_tree)
    densities = named(flat(model) if prior_tree is None else prior_tree)
    rows = [("parameter", "value", "domain", "prior")]
    for name, value in found.items():
        if np.issubdtype(value.dtype, np.floating):
            rows.append((name, _show(value), str(maps[name]), str(densities[name])))
        else:  # counts and numbers of columns are not learned
            rows.append((name, _show(value), "fixed", "none"))
    dashes = ["-" * max(map(len, column)) for column in zip(*rows, strict=True)]
    return aligned([rows[0], dashes, *rows[1:]])


def _show(value: Array) -> str:
    if isinstance(value, Tracer):
        return f"traced {value.shape}"
    array = np.asarray(value)
    if array.size > 8:
        shape = " x ".join(map(str, array.shape))
        return f"[{shape}] from {array.min():.4g} to {array.max():.4g}"
    return np.array2string(array, precision=4, separator=", ", suppress_small=False)
