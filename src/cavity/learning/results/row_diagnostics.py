"""Diagnostics of single rows, leave-one-out densities and site precisions, computed on request."""

import dataclasses
import functools

import numpy as np

from cavity.inference.energy import Sites, beliefs
from cavity.inference.leave_one_out import leave_one_out, site_precisions
from cavity.inference.problem import Problem
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.training_data import Data
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array


@dataclasses.dataclass(frozen=True)
class RowDiagnostics:
    """Data, problem and sites with which single rows are left out.

    Args:
        data: prepared data.
        problem: the problem that was solved.
        sites: its sites.
    """

    data: Data
    problem: Problem
    sites: Sites

    @functools.cached_property
    @with_one_blas_thread
    def densities(self) -> np.ndarray:
        """Leave-one-out log densities, without padding, NaN for outputs that are missing."""
        densities = _densities(self.problem, self.sites)
        if densities is None:
            raise ValueError(
                "rows share sites in deep models and in networks with tied sites, or have them on "
                "whole functions, and what the functions of latent inputs learn from a row "
                "depends on the others, so single rows cannot be left out: hold rows back from "
                "the fit instead"
            )
        values = self._of_rows(densities)
        return values[:, 0] if self.data.single else values

    @functools.cached_property
    @with_one_blas_thread
    def precisions(self) -> np.ndarray | None:
        """Precisions of the rows' sites, without padding, NaN for outputs that are missing.

        A column for each latent function where there are several; None where sites are not
        scalar.
        """
        found = _precisions(self.problem, self.sites)
        if found is None:
            return None
        values = np.concatenate([self._of_rows(each) for each in found], axis=1)
        return values[:, 0] if self.data.single and len(found) == 1 else values

    def _of_rows(self, values: Array) -> np.ndarray:
        """Without padding, and NaN for outputs that are missing."""
        seen = np.broadcast_to(np.asarray(self.data.rows.presence) > 0.0, values.shape)
        return np.where(seen, np.asarray(values), np.nan)[: int(self.data.length)]


@compiled
def _densities(problem: Problem, sites: Sites) -> Array | None:
    graph = problem.graph()
    return next(iter(leave_one_out(graph, sites, beliefs(graph, sites))), None)


@compiled
def _precisions(problem: Problem, sites: Sites) -> tuple[Array, ...] | None:
    graph = problem.graph()
    return next(iter(site_precisions(graph, sites, beliefs(graph, sites))), None)
