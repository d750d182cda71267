"""The table that printing a model shows, as text and in notebooks."""

import html
from collections.abc import Sequence

import numpy as np
from jax.core import Tracer

from cavity.numerics.text import aligned
from cavity.numerics.tree import named
from cavity.numerics.types import Array, PyTree
from cavity.parameters import Bijection, bijections
from cavity.parameters.priors import Prior, flat

HEAD = ("parameter", "value", "domain", "prior")


class Tabled:
    """Base of modules that print as a table of their parameters, in notebooks too."""

    def __str__(self) -> str:
        return table(self)

    def _repr_html_(self) -> str:
        return html_table(self)


class TabledModel:
    """Base of modules that show the parameters of their model in notebooks."""

    model: PyTree

    def _repr_html_(self) -> str:
        return html_table(self.model)


def table(model: PyTree, bijection_tree: PyTree = None, prior_tree: PyTree = None) -> str:
    """A plain-text table of a model's parameters: name, value, domain and prior.

    Args:
        model: the model; of its bijections or its priors, these are shown by name.
        bijection_tree: what `bijections(model)` gives, possibly edited; None for the default.
        prior_tree: what `priors.flat(model)` gives, possibly edited; None for flat priors.
    """
    rows = _rows(model, bijection_tree, prior_tree)
    if rows and len(rows[0]) < len(HEAD):
        return aligned(rows)
    dashes = ["-" * max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    return aligned([HEAD, dashes, *rows])


def html_table(model: PyTree, bijection_tree: PyTree = None, prior_tree: PyTree = None) -> str:
    """As `table`, in HTML."""
    rows = _rows(model, bijection_tree, prior_tree)
    head = HEAD[: len(rows[0])] if rows else HEAD
    lines = [_line("th", head), *(_line("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _line(cell: str, texts: Sequence[str]) -> str:
    each = (f'<{cell} style="text-align:left">{html.escape(text)}</{cell}>' for text in texts)
    return f"<tr>{''.join(each)}</tr>"


def _rows(model: PyTree, bijection_tree: PyTree, prior_tree: PyTree) -> list[tuple[str, ...]]:
    """A row for each parameter; of bijections or priors the name and what it has."""
    found = named(model)
    if any(isinstance(value, Bijection | Prior) for value in found.values()):
        return [(name, str(value)) for name, value in found.items()]
    maps = named(bijections(model) if bijection_tree is None else bijection_tree)
    densities = named(flat(model) if prior_tree is None else prior_tree)
    rows = []
    for name, value in found.items():
        if np.issubdtype(value.dtype, np.floating):
            rows.append((name, _show(value), str(maps[name]), str(densities[name])))
        else:  # counts and numbers of columns are not learned
            rows.append((name, _show(value), "fixed", "none"))
    return rows


def _show(value: Array) -> str:
    if isinstance(value, Tracer):
        return f"traced {value.shape}"
    array = np.asarray(value)
    if array.size > 8:
        shape = " x ".join(map(str, array.shape))
        return f"[{shape}] from {array.min():.4g} to {array.max():.4g}"
    return np.array2string(array, precision=4, separator=", ", suppress_small=False)
