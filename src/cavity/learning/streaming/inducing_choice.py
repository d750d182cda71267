"""Inducing variables for rows that are gone and rows that are new."""

import functools

import equinox as eqx
import numpy as np

from cavity.inducing.base import AbstractInducing, Points
from cavity.kernels.base import AbstractKernel
from cavity.learning.initialisation.inducing_points import extended_inducing, select_inducing
from cavity.models.base import AbstractGP
from cavity.models.posterior import AbstractPosterior
from cavity.models.remembered import costs_of_removal

CHOICES = ("keep", "move", "grow")
# Points are added until they explain all but this share of the variance at every new row.
LEFT = 0.02
# The share of the points that may go in one update, where there may be no more.
SWAPPED = 0.1


def chosen_inducing(
    model: AbstractGP, posterior: AbstractPosterior, X: np.ndarray, choice: str, most: int
) -> AbstractInducing:
    """The inducing variables that a model goes on with.

    Args:
        model: as it was.
        posterior: of it.
        X: new rows, (N, D).
        choice: "keep" as they are; "move", as many points of the old ones and the rows, by what
            they explain of both; "grow", more points until the new rows are explained, and at
            the limit in the place of those that say least.
        most: the most inducing points, where they grow.
    """
    assert model.inducing is not None
    if choice == "keep":
        return model.inducing
    return _chosen(model.inducing, model.covariances[0], posterior, X, choice, most)


@functools.singledispatch
def _chosen(
    before: AbstractInducing,
    kernel: AbstractKernel,
    posterior: AbstractPosterior,
    X: np.ndarray,
    choice: str,
    most: int,
) -> AbstractInducing:
    # other variables than points have no row to move to
    return before


@_chosen.register
def _(
    before: Points,
    kernel: AbstractKernel,
    posterior: AbstractPosterior,
    X: np.ndarray,
    choice: str,
    most: int,
) -> AbstractInducing:
    Z = np.asarray(before.Z)
    if choice == "move":
        points = select_inducing(kernel, np.concatenate([Z, X]), len(Z))
    else:
        points = extended_inducing(kernel, Z, X, LEFT, len(Z) + len(X))
        points = _within(max(most, len(Z)), Z, points[len(Z) :], posterior)
    return eqx.tree_at(lambda p: p.Z, before, points.astype(Z.dtype))


def _within(
    limit: int, Z: np.ndarray, new: np.ndarray, posterior: AbstractPosterior
) -> np.ndarray:
    """Old and new points up to a limit; old ones that are cheapest to remove are dropped."""
    most = max(1, int(SWAPPED * len(Z)))
    new = new[: limit - len(Z) + most]
    excess = len(Z) + len(new) - limit
    if excess <= 0:
        return np.concatenate([Z, new])
    staying = np.argsort(costs_of_removal(posterior), kind="stable")[excess:]
    return np.concatenate([Z[np.sort(staying)], new])
