"""What models of weights ask of their priors, and of the columns that weights multiply."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.numerics.text import plural
from cavity.weights.base import AbstractWeightPrior


def check_prior(prior: Any, power: float, model: str) -> None:
    """Raises for what is no prior, and for a power that it does not have."""
    if not isinstance(prior, AbstractWeightPrior):
        raise TypeError(
            f"prior of a {model} must be an object of cavity.weights, such as Laplace(); "
            f"given {type(prior).__name__}"
        )
    if power != 1.0 and not prior.any_power:
        raise ValueError(
            f"a {type(prior).__name__} prior has sites of power 1 alone: leave prior_power=1, "
            f"given {power}"
        )


def check_sites(approximation: AbstractApproximation, model: str) -> None:
    """Raises ValueError for an approximation other than that of sites of single rows."""
    if approximation.tied or approximation.evaluation_point is not EvaluationPoint.CAVITY:
        raise ValueError(
            f"the rows of a {model}, and those of its priors, have sites of their own that are "
            "matched at cavities: use method=cavity.PowerEP()"
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


def check_columns(
    columns: int,
    priors: Sequence[AbstractWeightPrior],
    groups: Any,
    centre: Any,
    scale: Any,
) -> None:
    """Raises ValueError where parts of a model are for other numbers of columns."""
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
    for prior in priors:
        for size in prior.sizes() - {count}:
            wanted = "column" if groups is None else "group"
            raise ValueError(
                f"the prior has a parameter with {plural(size, 'value')} for "
                f"{plural(count, wanted)}: give one value, or one per {wanted}"
            )
