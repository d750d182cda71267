"""Priors of parameters that estimators are asked for by name."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from cavity.estimators.asked_constraints import by_name, constraints
from cavity.estimators.settings import Settings, parts_given
from cavity.families.values import one_of
from cavity.kernels.text_form import written
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.initialisation.default_priors import default_priors, priors_of_stream
from cavity.learning.streaming.result import PriorsOf
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
    held = written(settings.kernel, X.shape[1], settings.names, settings.feature_groups).fixed
    said = constraints(settings.fixed, settings.bounds, settings.priors, model, held)
    weak = _asked(settings)
    found = (
        default_priors(model, parts_given(settings), WeightedTable(X, y, side)) if weak else None
    )
    return said.densities(model, found)


def asked_priors_of_stream(settings: Settings) -> PriorsOf | None:
    """As `asked_priors`, for a model and the counts of all rows so far."""
    return partial(priors_of_stream, parts_given(settings)) if _asked(settings) else None


def _asked(settings: Settings) -> bool:
    if by_name(settings.priors) is not None:
        return True
    return settings.priors is not None and one_of("priors", settings.priors, PRIORS) != "none"
