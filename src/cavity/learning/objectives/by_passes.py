"""The objective of a table whose rows have sites that stay with its parts."""

from typing import Any

import numpy as np

from cavity.inference.energy import Sites
from cavity.learning.data.training_data import AbstractTrainingData, Minibatch
from cavity.learning.objectives.evidence import TIGHTEST, Objective
from cavity.learning.objectives.passes import value_and_grad_by_passes
from cavity.learning.objectives.settling import Settled, Sweeper, check_passes
from cavity.models.base import AbstractModel


class PassObjective(Objective):
    """Energy minus log priors, with its gradient, by passes.

    Sites are found anew at every point, so that values depend on points alone, and a search that
    goes on from a record needs none.

    Args:
        start: as of `Objective`.
        data: the table.
        options: of `Objective`; sites to start from are left out.
    """

    def __init__(
        self,
        start: AbstractModel,
        data: AbstractTrainingData,
        *,
        jitter: float = 1e-8,
        **options: Any,
    ):
        known = options | {"sites": None, "settled": None}
        super().__init__(start, data, jitter=jitter, **known)
        problem = data.exemplar.problem(start, self.approximation, jitter)
        names = type(self.method).__name__, type(start.likelihood).__name__
        check_passes(problem, *names)
        self.carries = False
        self.found: tuple[float, np.ndarray] | None = None
        self.sweeper = Sweeper(data, self.solver)

    def _sites(self, x: np.ndarray, jitter: float) -> Sites | None:
        """None where sites end far from a fixed point; those at hand are with the parts."""
        at = self.point(x, jitter)

        def evaluated(found: Settled) -> tuple[float, np.ndarray] | None:
            report = found.report
            if not np.isfinite(report.residual):  # no proper belief: more jitter may help
                return np.nan, np.full(at.move.shape, np.nan)
            far = not report.residual < self.solver.nearby or report.skipped > 0
            if far and self.defined:
                return None
            return value_and_grad_by_passes(at, self.data, found.total, found.sites)

        tolerance = max(self.solver.tolerance, TIGHTEST)
        self.found = self.sweeper.at_settled(at, tolerance, evaluated)
        return None if self.found is None else self.empty

    def _evaluated(
        self, x: np.ndarray, sites: Sites, batch: Minibatch | None, scale: float, jitter: float
    ) -> tuple[float, np.ndarray]:
        """What was found with the sites of the point."""
        assert self.found is not None
        value, slope = self.found
        return value, self.coordinates.gradient(slope, np.zeros(0))

    def close(self) -> None:
        """Drops the sites."""
        self.sweeper.close()
