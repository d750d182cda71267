"""The coordinates of learning: the free parameters of a model, then its tied sites."""

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import ArrayLike

from cavity.inference.energy import Sites
from cavity.learning.data.scales import (
    coordinate_bounds,
    coordinate_scales,
    coordinates_of,
    model_at,
)
from cavity.learning.data.training_data import AbstractTrainingData
from cavity.models.base import AbstractModel
from cavity.numerics.types import Array
from cavity.parameters import free_entries, units


class Coordinates:
    """Scaled coordinates about a starting model and starting tied sites.

    Args:
        start: the model to start from; its coordinates are zero.
        data: prepared data, for the scales of parameters.
        maps: bijections.
        tied: the tied sites to start from; a tree without leaves where there are none.
    """

    def __init__(
        self, start: AbstractModel, data: AbstractTrainingData, maps: AbstractModel, tied: Sites
    ):
        self.start, self.maps = start, maps
        self.origin = coordinates_of(start, maps)
        scales = data.scales(start.likelihood)
        self.scale = np.asarray(coordinate_scales(start, maps, scales), np.float64)
        flat, self._unravel = ravel_pytree(tied)
        self.dtype = flat.dtype
        # where the search begins
        self.first = np.concatenate([np.zeros(self.scale.size), np.asarray(flat, np.float64)])
        free = np.full((flat.size, 2), [-np.inf, np.inf])
        self.bounds = np.concatenate([coordinate_bounds(start, maps, scales), free])

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.first.size

    @property
    def n_parameters(self) -> int:
        """The number of coordinates that are parameters of the model."""
        return self.scale.size

    @property
    def learns_inducing(self) -> bool:
        """True if locations of inducing variables are coordinates."""
        free = free_entries(self.start, self.maps, units(self.start))
        return any(unit.location and "inducing" in name.split(".") for name, *_, unit in free)

    def move(self, x: np.ndarray) -> np.ndarray:
        """The change of the unconstrained parameters at a point."""
        return (self.scale * x[: self.n_parameters]).astype(self.origin.dtype)

    def real(self, x: np.ndarray) -> Array:
        """The unconstrained parameters at a point."""
        return jnp.asarray(np.asarray(self.origin) + self.move(x))

    def model(self, x: np.ndarray) -> AbstractModel:
        """The model at a point."""
        return model_at(self.real(x), self.start, self.maps)

    def tied_sites(self, x: np.ndarray) -> Sites:
        """The tied sites at a point."""
        return self._unravel(jnp.asarray(x[self.n_parameters :], self.dtype))

    def at_tied(self, tied: Sites, x: np.ndarray) -> np.ndarray:
        """The point with other tied sites."""
        values = np.asarray(ravel_pytree(tied)[0], np.float64)
        return np.concatenate([x[: self.n_parameters], values])

    def gradient(self, by_real: ArrayLike, by_tied: ArrayLike) -> np.ndarray:
        """Derivatives in the coordinates."""
        by_parameters = np.asarray(by_real, np.float64) * self.scale
        return np.concatenate([by_parameters, np.asarray(by_tied, np.float64)])
