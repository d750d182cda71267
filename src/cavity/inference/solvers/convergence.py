"""Convergence of sites: how they were found, and whether they count as a fixed point."""

import dataclasses

import numpy as np

from cavity.inference.problem import Problem
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.numerics.types import Array


@dataclasses.dataclass(frozen=True)
class ConvergenceReport:
    """Record of how sites were found.

    Attributes:
        sweeps: sweeps and steps made (0 where every factor is exact).
        residual: largest change of a moment that a further sweep would make, in deviations.
        skipped: sites skipped in the last sweep.
        finished_by: the algorithm that finished.
        converged: whether they are at a fixed point, or at the minimum where they are found by
            minimisation.
    """

    sweeps: int
    residual: float
    skipped: int
    finished_by: str
    converged: bool = True


EXACT = ConvergenceReport(0, 0.0, 0, "exact")


def is_accepted(
    problem: Problem, solver: FixedPointSolver, residual: float, skipped: float
) -> bool:
    """True if sites count as a fixed point."""
    accepted = problem.attainable(max(solver.tolerance, solver.accepted))
    return residual < accepted and skipped == 0


def count(skipped: Array | np.ndarray | float) -> int:
    """Sites skipped, as a whole number."""
    return round(float(skipped)) if np.isfinite(float(skipped)) else 0
