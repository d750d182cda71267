"""Groups of features by category, and blocks as users name them: by number, name or category."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.families.values import is_word
from cavity.numerics.text import plural

# The word for blocks of the 0/1 columns of each category.
COLUMNS = "columns"


def feature_blocks(
    blocks: Any, widths: Sequence[int], names: Sequence[Any] | None
) -> list[list[int]] | None:
    """The features of each block.

    Args:
        blocks: lists of columns, each by its number from 0 or by its name; `COLUMNS` for a block
            of every column that becomes several features; None.
        widths: of each column, the number of features that it becomes.
        names: the names of the columns; None where they have none.

    Returns:
        Numbers of features; None where there are no blocks.

    Raises:
        ValueError: for other words, names that no column has, and `COLUMNS` without categories.
    """
    if blocks is None:
        return None
    if is_word(blocks, COLUMNS):
        return category_blocks(widths, "data frames with categorical columns")
    if isinstance(blocks, str) or not isinstance(blocks, Sequence | np.ndarray):
        raise ValueError(
            f"blocks must be lists of columns, or '{COLUMNS}' for a block of every categorical "
            f"column, given {blocks!r}"
        )
    features, found = _features(widths), []
    for block in blocks:
        numbers = [_number(column, names, len(features)) for column in _listed(block)]
        found.append([feature for number in numbers for feature in features[number]])
    return found


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


def widths_of(asked: Any, count: int) -> list[int]:
    """The number of features that each column of an estimator's inputs became.

    Args:
        asked: the estimator.
        count: of all features.
    """
    return [1] * count if asked.encoder_ is None else asked.encoder_.widths


def asked_groups(asked: Any, count: int) -> np.ndarray | None:
    """The group of each feature: as an estimator was asked for, or the categories of a data frame.

    Args:
        asked: the estimator, with `groups` and `prior`.
        count: of all features.

    Raises:
        ValueError: for another number of groups than there are columns.
    """
    widths = widths_of(asked, count)
    if asked.groups is None:
        return feature_groups(widths, asked.prior)
    groups = np.asarray(asked.groups)
    if groups.shape != (len(widths),):
        raise ValueError(
            f"groups must have one entry for each of {plural(len(widths), 'column')}, given shape "
            f"{groups.shape}"
        )
    return np.repeat(groups, widths)


def category_blocks(widths: Sequence[int], called: str) -> list[list[int]]:
    """A block of the features of every column that becomes several.

    Args:
        widths: of each column, the number of features that it becomes.
        called: tables that have such columns, in words.

    Raises:
        ValueError: where no column becomes several features.
    """
    found = [own for own in _features(widths) if len(own) > 1]
    if not found:
        raise ValueError(
            f"blocks of categories are for {called}, of which there are none: leave the blocks "
            "out, or in Python give lists of columns, as in blocks=[[0, 1, 2], [3, 4]]"
        )
    return found


def _features(widths: Sequence[int]) -> list[list[int]]:
    """The numbers of the features of each column."""
    ends = np.cumsum(widths)
    return [list(range(end - width, end)) for end, width in zip(ends, widths, strict=True)]


def _listed(block: Any) -> list[Any]:
    if isinstance(block, str) or np.ndim(block) != 1:
        raise ValueError(
            f"a block must be a list of columns, given {block!r}: give such as "
            "blocks=[[0, 1, 2], [3, 4]], or names of columns in the place of numbers"
        )
    return list(block)


def _number(column: Any, names: Sequence[Any] | None, count: int) -> int:
    """The number of a column from its number or name."""
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if 0 <= column < count:
            return int(column)
        raise ValueError(
            f"blocks have column {column}, X has columns 0 to {count - 1}: give the number of one "
            "of them, or a name"
        )
    known = [] if names is None else list(names)
    if column not in known:
        raise ValueError(
            f"blocks have column {column!r}, which X does not have: "
            + (f"known are {', '.join(map(str, known))}" if known else "give numbers of columns")
        )
    return known.index(column)
