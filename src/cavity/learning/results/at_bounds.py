"""Learned parameters that ended at a bound of their search."""

import dataclasses

import numpy as np

from cavity.models.base import AbstractModel
from cavity.parameters import Bijection, free_entries

# Coordinates within so much of a bound are at it; of bounds that were given this share of their
# distance.
CLOSE, SHARE = 1e-6, 1e-6


@dataclasses.dataclass(frozen=True)
class AtBound:
    """A learned parameter that ended at a bound.

    Attributes:
        name: of the parameter, dotted.
        value: where it ended; of several numbers the one at its bound.
        largest: whether the bound is the largest value that was tried, or the least.
    """

    name: str
    value: float
    largest: bool

    def __str__(self) -> str:
        which = "largest" if self.largest else "least"
        return f"{self.name} ended at the {which} value that is tried, {self.value:.3g}"


def at_bounds(
    model: AbstractModel, maps: AbstractModel, x: np.ndarray, bounds: np.ndarray
) -> tuple[AtBound, ...]:
    """The learned parameters that are at a bound, in their order.

    Args:
        model: with its learned parameters.
        maps: the bijections in which they were learned.
        x: the coordinates, those of parameters first.
        bounds: of the coordinates, (coordinates, 2).
    """
    found, place = [], 0
    for name, value, domain in free_entries(model, maps):
        values = np.ravel(np.asarray(value, np.float64))
        own = slice(place, place + values.size)
        place += values.size
        for end, given in enumerate(_at_given(values, domain)):
            hit = given | (np.abs(x[own] - bounds[own, end]) <= CLOSE)
            if np.any(hit):
                found.append(AtBound(name, float(values[hit][0]), largest=end == 1))
    return tuple(found)


def _at_given(values: np.ndarray, domain: Bijection) -> tuple[np.ndarray, np.ndarray]:
    """True where values are at the given lower bound of their domain; the same for the upper."""
    lower, upper = domain.lower, domain.upper
    nowhere = np.zeros(values.shape, bool)
    if not np.isfinite(upper):
        return (values <= lower * (1.0 + SHARE) if lower > 0.0 else nowhere), nowhere
    room = SHARE * (upper - lower)
    return values <= lower + room, values >= upper - room
