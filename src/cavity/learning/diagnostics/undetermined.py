"""Parameters of which the data say nothing."""

import numpy as np

from cavity.learning.data.training_data import AbstractTrainingData
from cavity.models.base import AbstractModel
from cavity.parameters import Real, Units, free_entries, free_parts, units

SAID = "the outputs do not vary, so that they determine no parameter: all stay where they started"


def undetermined(
    model: AbstractModel, data: AbstractTrainingData, maps: AbstractModel
) -> tuple[str, ...]:
    """Dotted names of the parameters to be learned that the data do not determine.

    They are all such parameters where no output varies and zero or a learned constant explains the
    outputs: any small enough noise and function fits, and the evidence has no maximum. There are
    none otherwise.

    Args:
        model: the model.
        data: prepared data.
        maps: the bijections in which parameters are to be learned.
    """
    scales = data.scales(model.likelihood)
    if scales.y_varies or not (_has_height(model, maps) or not np.any(scales.y_centre)):
        return ()
    return tuple(name for name, *_ in free_entries(model, maps))


def _has_height(model: AbstractModel, maps: AbstractModel) -> bool:
    """True if a constant that is added to a function is learned."""
    return any(
        domain == Real() and unit == Units(output=1)
        for _, domain, unit in free_parts(model, maps, units(model))
    )
