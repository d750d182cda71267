"""The objective of a table whose rows have sites that stay with its parts."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites
from cavity.learning.data.training_data import AbstractTrainingData, Minibatch
from cavity.learning.objectives.evidence import TIGHTEST, Objective
from cavity.learning.objectives.passes import At, value_and_grad_by_passes
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

    settled_at: Settled | None = None

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
        self.sweeper = Sweeper(data, self.solver)

    def at(self, x: np.ndarray, jitter: float) -> At:
        """A point of passes."""
        dtype = self.coordinates.origin.dtype
        move = jnp.asarray(self.coordinates.move(x))
        return At(self.function, move, jnp.asarray(jitter, dtype))

    def _sites(self, x: np.ndarray, jitter: float) -> Sites | None:
        """The tree of sites is empty: they are with the parts. None where they do not settle."""
        tolerance = max(self.solver.tolerance, TIGHTEST)
        self.settled_at = self.sweeper.settled(self.at(x, jitter), tolerance)
        report = self.settled_at.report
        far = not report.residual < self.solver.nearby or report.skipped > 0
        return None if far else self.empty

    def _evaluated(
        self, x: np.ndarray, sites: Sites, batch: Minibatch | None, scale: float, jitter: float
    ) -> tuple[float, np.ndarray]:
        found = self.settled_at
        assert found is not None
        at = self.at(x, jitter)
        value, slope = value_and_grad_by_passes(at, self.data, found.total, found.sites)
        return value, self.coordinates.gradient(slope, np.zeros(0))
