"""Checks of linear models: priors, sites, and the columns that weights multiply."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.weights.blocks import units_of
from cavity.models.base import check_part
from cavity.numerics.text import plural
from cavity.weights.base import AbstractScaleMixture, AbstractWeightPrior

# The columns of each block.
BlockColumns = tuple[tuple[int, ...], ...]


def check_prior(prior: Any, power: float, model: str) -> None:
    """Raises unless the prior is one of `cavity.weights` and has sites of this power."""
    check_part(f"prior of a {model}", prior, AbstractWeightPrior)
    if power != 1.0 and not prior.any_power:
        raise ValueError(
            f"a {type(prior).__name__} prior has sites of power 1 alone: leave prior_power=1, "
            f"given {power}"
        )


def check_sites(approximation: AbstractApproximation, model: str, other: str = "") -> None:
    """Raises ValueError for an approximation other than that of sites of single rows.

    Args:
        approximation: what stands in the place of the likelihood terms.
        model: its name.
        other: what else there is, for the message.
    """
    if approximation.tied or approximation.evaluation_point is not EvaluationPoint.CAVITY:
        raise ValueError(
            f"the rows of a {model}, and those of its priors, have sites of their own that are "
            f"matched at cavities: use method=cavity.PowerEP(){other}"
        )


def checked_groups(groups: ArrayLike | None) -> np.ndarray | None:
    """The group of each column as an array."""
    if groups is None:
        return None
    numbers = np.asarray(groups)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
        raise ValueError(
            "groups must be whole numbers from 0, one for each column of X, given values of type "
            f"{numbers.dtype}: np.unique(groups, return_inverse=True)[1] makes numbers of names"
        )
    return numbers.astype(np.int64)


def checked_blocks(
    blocks: Sequence[Any] | np.ndarray | None,
    priors: Sequence[AbstractWeightPrior],
    power: float,
    *,
    groups: bool,
    integrated: bool,
) -> BlockColumns | None:
    """The columns of each block as numbers.

    Args:
        blocks: columns whose weights share a scale.
        priors: the priors of the weights.
        power: of the priors' sites.
        groups: whether there are groups.
        integrated: whether parameters of the prior are integrated out.

    Raises:
        ValueError: for what are no blocks, and for priors and settings that do not go with them.
    """
    if blocks is not None and not isinstance(blocks, Sequence | np.ndarray):
        raise ValueError(
            f"blocks must be lists of columns, as in blocks=[[0, 1, 2], [3, 4]], given {blocks!r}"
        )
    if blocks is None or not len(blocks):
        return None
    if groups:
        raise ValueError(
            "given both blocks and groups: leave groups=None, and give parameters of the prior "
            "one value for each block, then one for each column without a block"
        )
    if integrated:
        raise ValueError(
            "parameters of a prior with blocks cannot be integrated out: leave them out of "
            "integrated=, or leave blocks=None"
        )
    for prior in priors:
        if not isinstance(prior, AbstractScaleMixture):
            raise ValueError(
                f"the weights of a block share the scale of a scale mixture, which "
                f"{type(prior).__name__} is not here: give cavity.weights.SpikeSlab, Horseshoe, "
                "StudentT or Gaussian"
            )
        if power != 1.0 and not prior.gaussian:
            raise ValueError(
                f"blocks of weights with a {type(prior).__name__} prior have sites of power 1 "
                f"alone: leave prior_power=1, given {power}"
            )
    return _numbered(blocks)


def _numbered(blocks: Sequence[Any] | np.ndarray) -> BlockColumns:
    """The blocks as tuples of whole numbers."""
    found, seen = [], set()
    for number, block in enumerate(blocks):
        columns = np.asarray(block)
        if columns.ndim != 1 or not columns.size or columns.dtype.kind not in "iu":
            raise ValueError(
                f"block {number}, counted from 0, is {block!r}: give the numbers of its columns, "
                "at least one, as in blocks=[[0, 1, 2], [3, 4]]"
            )
        own = tuple(map(int, columns))
        if min(own) < 0:
            raise ValueError(f"columns are counted from 0, given {min(own)} in block {number}")
        twice = [column for i, column in enumerate(own) if column in seen or column in own[:i]]
        if twice:
            raise ValueError(
                f"column {twice[0]} is in two blocks, or in one twice: give it once, in block "
                f"{number} or in the other"
            )
        seen.update(own)
        found.append(own)
    return tuple(found)


def check_columns(
    columns: int,
    priors: Sequence[AbstractWeightPrior],
    groups: Any,
    centre: Any,
    scale: Any,
    blocks: BlockColumns | None = None,
) -> None:
    """Raises ValueError where parts of a model are for other numbers of columns."""
    last = max((max(block) for block in blocks or ()), default=-1)
    if last >= columns:
        raise ValueError(
            f"blocks have column {last}, X has {plural(columns, 'column')}, counted from 0: give "
            "the numbers of its columns"
        )
    if groups is not None and len(groups) != columns:
        raise ValueError(
            f"groups has {plural(len(groups), 'entry', 'entries')}, X has "
            f"{plural(columns, 'column')}: give the group of every column"
        )
    if scale is not None and not np.all(np.asarray(scale) > 0.0):
        raise ValueError("the scale of every column must be positive: give 1 to a constant one")
    for name, values in (("centre", centre), ("scale", scale)):
        if values is not None and np.shape(values) != (columns,):
            raise ValueError(
                f"{name} has shape {np.shape(values)}, X has {plural(columns, 'column')}: "
                "give one number for each"
            )
    count = columns if groups is None else int(np.max(groups, initial=-1)) + 1
    wanted, all_wanted = ("column", "columns") if groups is None else ("group", "groups")
    if blocks:
        count = len(np.unique(units_of(blocks, columns)))
        wanted, all_wanted = "block or other column", "blocks and other columns"
    for prior in priors:
        for size in prior.sizes() - {count}:
            raise ValueError(
                f"the prior has a parameter with {plural(size, 'value')} for "
                f"{plural(count, wanted, all_wanted)}: give one value, or one per {wanted}"
            )
