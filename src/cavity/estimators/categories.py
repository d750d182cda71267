"""Categorical columns of data frames as numbers, and the groups that they form."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cavity.numerics.text import quoted, shortened


@dataclasses.dataclass(frozen=True)
class Categories:
    """The categorical columns of a data frame, each to be a 0/1 column per category.

    Attributes:
        columns: the names of all columns, in order.
        levels: the categories of each categorical column, by its name.
    """

    columns: tuple[Any, ...]
    levels: Mapping[Any, tuple[Any, ...]]

    @property
    def widths(self) -> list[int]:
        """The number of columns that each column becomes."""
        return [len(self.levels.get(name, "1")) for name in self.columns]

    def numbers(self, X: Any) -> Any:
        """The frame with 0/1 columns such as `colour=red` for its categorical columns.

        Raises:
            ValueError: for an array, another set of columns, a missing category, and one that was
                not there in fitting.
        """
        if list(self.columns) != list(getattr(X, "columns", [])):
            raise ValueError(
                "the model was fitted to a data frame with categorical columns: give a data frame "
                f"with the same columns, {', '.join(map(str, self.columns))}"
            )
        found: dict[str, Any] = {}
        for name in self.columns:
            if name not in self.levels:
                found[str(name)] = X[name]
                continue
            cells, levels = _cells(X, name), self.levels[name]
            _refuse_unknown(name, cells, levels)
            for level in levels:
                found[f"{name}={level}"] = np.array([float(cell == level) for cell in cells])
        return type(X)(found)


def learn_categories(X: Any) -> Categories | None:
    """The categorical columns of a data frame of pandas or polars; None where there are none."""
    names, types = getattr(X, "columns", None), getattr(X, "dtypes", None)
    if names is None or types is None or len(set(names)) < len(names):
        return None
    kinds = dict(zip(names, types, strict=True))
    asked = [name for name, kind in kinds.items() if type(kind).__name__ in _CATEGORICAL]
    if not asked:
        return None
    return Categories(tuple(names), {name: _levels(X, name, kinds[name]) for name in asked})


def feature_groups(widths: Sequence[int], prior: object) -> np.ndarray | None:
    """The group of each feature, so that a prior has parameters for each category of a table.

    Args:
        widths: of each column, the number of features that it becomes.
        prior: the prior's name; of "ard" every other column is a group of its own, of any other
            prior all of these are one.

    Returns:
        Whole numbers from 0; None where no column becomes several features, or the prior is no
        name.
    """
    if not isinstance(prior, str) or max(widths, default=1) < 2:
        return None
    alike = prior != "ard"
    # the columns that are alike come first in numbers, if there are any
    groups: list[int] = []
    following = int(alike and 1 in widths)
    for width in widths:
        shared = alike and width == 1
        groups += [0 if shared else following] * width
        following += not shared
    return np.array(groups)


_CATEGORICAL = ("CategoricalDtype", "Categorical", "Enum")


def _cells(X: Any, name: Any) -> list[Any]:
    """The categories of the rows; None, or NaN, where missing."""
    return X[name].to_list()


def _levels(X: Any, name: Any, kind: Any) -> tuple[Any, ...]:
    """The categories that occur: in their order, where the column has one, else sorted."""
    present = {cell for cell in _cells(X, name) if cell is not None and cell == cell}
    ordered = sorted(present) if type(kind).__name__ == "Categorical" else kind.categories
    return tuple(level for level in ordered if level in present)


def _refuse_unknown(name: Any, cells: Sequence[Any], levels: Sequence[Any]) -> None:
    known = set(levels)
    for row, cell in enumerate(cells):
        if cell is None or cell != cell:
            raise ValueError(
                f"column '{name}' has no category in row {row}, counted from 0: fill it in, or "
                "leave the row out"
            )
        if cell not in known:
            raise ValueError(
                f"column {quoted(name)} holds {quoted(cell)} in row {row}, which was not there in "
                f"fitting; known are {', '.join(map(shortened, levels))}: fit with rows of "
                "this category, or leave the row out"
            )
