"""Priors of parameters that estimators are asked for by name."""

from collections.abc import Mapping

import numpy as np

from cavity.estimators.registry import one_of
from cavity.estimators.settings import Settings, parts_given
from cavity.learning.initialisation.default_priors import default_priors
from cavity.models.gp import GP

PRIORS = ("weak", "none")


def asked_priors(
    settings: Settings, model: GP, X: np.ndarray, y: np.ndarray, side: Mapping[str, np.ndarray]
) -> GP | None:
    """The priors of the parameters of a model; None for flat ones.

    Args:
        settings: what was asked for.
        model: the model, as `build` gives it.
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        side: side data by name, (N,) each.

    Raises:
        ValueError: for what names no priors.
    """
    if settings.priors is None or one_of("priors", settings.priors, PRIORS) == "none":
        return None
    return default_priors(model, parts_given(settings), X, y, side)
