"""Weak priors of the parameters of linear models: of the noise, and of the prior of the weights.

Under them these parameters are averaged over. The evidence alone cannot tell a few large weights
from many small ones where signals are weak or columns few, and its maximum is then often where all
weights take part.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.learning.initialisation.linear import Spread
from cavity.models.linear.linear_model import LinearModel
from cavity.numerics.tree import with_named
from cavity.parameters import Interval, Real, Units, bijections, free_entries, units
from cavity.parameters.priors import Beta, LogitNormal, LogStudentT, Prior, flat

# The noise variance at which its prior is centred, as a share of the spread of the outputs.
NOISE = 0.3
# Scales of the logarithms of deviations; those of variances are twice as large.
NOISE_SCALE, WEIGHT_SCALE = 0.5, 0.75
# Standard deviation of the logit of a share about a value that was given.
SHARE_SCALE = 1.5


def linear_priors(
    model: LinearModel, spread: Spread, *, named_prior: bool, named_likelihood: bool
) -> LinearModel:
    """A tree of priors of all parameters that are learned.

    A share is uniform. Scales and variances of the weights are centred at their starting values,
    at which the columns together explain the outputs, and the noise variance at 0.3 of the
    outputs' variance; their logarithms are Student-t distributed. Of a prior or a likelihood that
    came as an object, all are centred at its own values.

    Args:
        model: the model, at its starting values.
        spread: of the outputs, on the scale of the function.
        named_prior: whether the prior of the weights was asked for by name.
        named_likelihood: whether the likelihood was.
    """
    maps = bijections(model)
    chosen: dict[str, Prior] = {}
    for name, value, domain, unit in free_entries(model, maps, units(model)):
        of_noise = name.startswith("likelihood.")
        own = named_likelihood if of_noise else named_prior
        centre = np.asarray(value, float)
        if of_noise and own and name == "likelihood.variance":
            centre = np.full(np.shape(value), NOISE * spread.variance)
        scale = NOISE_SCALE if of_noise else WEIGHT_SCALE
        found = _about(centre, domain, unit, scale, given=not own)
        chosen |= {} if found is None else {name: found}
    return with_named(flat(model), chosen)


def _about(
    centre: np.ndarray, domain: Any, unit: Units, scale: float, *, given: bool
) -> Prior | None:
    """A weak prior about a value; None of parameters that can have any sign."""
    if isinstance(domain, Interval):
        return LogitNormal(_plain(centre), SHARE_SCALE) if given else Beta(1.0, 1.0)
    if domain == Real():
        return None
    power = abs(unit.output) or 1.0
    return LogStudentT(centre, np.asarray(scale * power))


def _plain(values: np.ndarray) -> float | tuple[float, ...]:
    return float(values) if values.ndim == 0 else tuple(float(x) for x in values)


def averaged_over(
    model: LinearModel, maps: LinearModel, parts: Sequence[str], most: int
) -> tuple[str, ...]:
    """Names of the parameters to average over: all of these parts, or the single ones.

    Args:
        model: the model.
        maps: bijections by which its parameters were learned.
        parts: how their names begin.
        most: numbers that they have at the most, all together. Where there are more, parameters
            with a value for each group or column are learned, and the others averaged over.
    """
    free = [
        (name, np.size(value))
        for name, value, _ in free_entries(model, maps)
        if name.startswith(tuple(parts))
    ]
    if sum(size for _, size in free) > most:
        free = [(name, size) for name, size in free if size == 1]
    return tuple(name for name, _ in free)
