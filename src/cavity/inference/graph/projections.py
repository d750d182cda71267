"""Cached projections of rows, which several views share and which do not change in sweeps."""

import dataclasses
from collections.abc import Sequence
from typing import cast

from cavity.inference.graph.base import AbstractView, AbstractWhitenedView
from cavity.inference.graph.rows import Rows
from cavity.numerics.chunking import map_over_rows

# Numbers that projections of all rows may be: a quarter of a gigabyte in float64.
HELD = 2**25


def with_projections(views: Sequence[AbstractView], rows: Rows) -> Rows:
    """Rows with cached projections of these views, computed once for views of one number."""
    found = dict(rows.projections)
    for view in _numbered(views):
        if view.number is not None and view.number not in found:
            found[view.number] = view.explained(rows)
    return dataclasses.replace(rows, projections=found)


def holding_projections(views: Sequence[AbstractView], rows: Rows, chunk: int) -> Rows:
    """All rows of a table with cached projections at these parameters.

    If these are too large to hold, rows are returned unchanged, and each chunk computes its own.

    Args:
        views: the views.
        rows: all rows.
        chunk: rows worked on at a time.
    """
    sizes = {view.number: view.factor.shape[0] for view in _numbered(views)}
    if rows.y.shape[0] * sum(sizes.values()) > HELD:
        return rows
    found = map_over_rows(lambda some: with_projections(views, some).projections, rows, chunk)
    return dataclasses.replace(rows, projections=found)


def _numbered(views: Sequence[AbstractView]) -> list[AbstractWhitenedView]:
    """The views that share their projections under a number."""
    whitened = [cast(AbstractWhitenedView, view) for view in views if view.whitened]
    return [view for view in whitened if view.number is not None]
