"""Inducing variables for rows that are gone and rows that are new."""

import functools

import equinox as eqx
import numpy as np

from cavity.inducing.base import AbstractInducing, Points
from cavity.learning.initialisation.inducing_points import extended_inducing, select_inducing
from cavity.models.base import AbstractGP

CHOICES = ("keep", "move", "grow")
# Points are added until they explain all but this share of the variance at every new row.
LEFT = 0.02


def chosen_inducing(model: AbstractGP, X: np.ndarray, choice: str, most: int) -> AbstractInducing:
    """The inducing variables that a model goes on with.

    Args:
        model: the model as it was.
        X: new rows, (N, D).
        choice: "keep" as they are; "move", as many points of the old ones and the rows, by what
            they explain of both; "grow", more points until the new rows are explained.
        most: the most inducing points, where they grow.
    """
    before = model.inducing
    assert before is not None
    return before if choice == "keep" else _chosen(before, model, X, choice, most)


@functools.singledispatch
def _chosen(
    before: AbstractInducing, model: AbstractGP, X: np.ndarray, choice: str, most: int
) -> AbstractInducing:
    # other variables than points have no row to move to
    return before


@_chosen.register
def _(
    before: Points, model: AbstractGP, X: np.ndarray, choice: str, most: int
) -> AbstractInducing:
    Z, kernel = np.asarray(before.Z), model.kernels[0]
    if choice == "grow" and len(Z) < most:
        points = extended_inducing(kernel, Z, X, LEFT, most)
    else:
        points = select_inducing(kernel, np.concatenate([Z, X]), len(Z))
    return eqx.tree_at(lambda p: p.Z, before, points.astype(Z.dtype))
