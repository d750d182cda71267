"""Leave-one-out densities of a result, found when they are asked for."""

import dataclasses
import functools
from typing import Any

import numpy as np

from cavity.inference.energy import beliefs, empty_sites
from cavity.inference.leave_one_out import leave_one_out
from cavity.inference.methods import AbstractMethod, TiedPowerEP
from cavity.inference.tied import tied_leave_one_out
from cavity.learning.data import Data
from cavity.learning.outer_loop import lay_out
from cavity.learning.threads import one_blas_thread
from cavity.learning.tied import counts
from cavity.models.base import AbstractModel
from cavity.numerics.compiled import compiled
from cavity.numerics.types import Array, Scalar


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """What leaving out single rows needs of a result, its data among it.

    Args:
        model: the model.
        data: prepared data.
        method: the inference method.
        jitter: of the covariance that is factorised.
        found: sites, None where every factor is exact; of tied factors the beliefs.
    """

    model: AbstractModel
    data: Data
    method: AbstractMethod
    jitter: Scalar
    found: Any

    @functools.cached_property
    def densities(self) -> np.ndarray:
        """Of the rows that are not padding, NaN for outputs that are missing."""
        with one_blas_thread():
            densities = _densities(self.model, self.data, self.method, self.jitter, self.found)
        seen = np.broadcast_to(np.asarray(self.data.rows.presence) > 0.0, densities.shape)
        values = np.where(seen, np.asarray(densities), np.nan)[: int(self.data.length)]
        return values[:, 0] if self.data.single else values


@compiled
def _densities(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, found: Any
) -> Array:
    graph = lay_out(model, data, method, jitter)
    if isinstance(method, TiedPowerEP):
        return tied_leave_one_out(graph, found, counts(data))
    sites = empty_sites(graph) if found is None else found
    densities = leave_one_out(graph, sites, beliefs(graph, sites))
    assert densities is not None  # rows of blocks are refused before
    return densities
