"""The posterior and the evidence of a table in parts, by passes over them."""

import jax.numpy as jnp
import numpy as np

from cavity.inference.solvers.convergence import EXACT, ConvergenceReport
from cavity.learning.data.training_data import AbstractTrainingData
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.objectives.learning_energy import fixed_objective
from cavity.learning.objectives.passes import At, posterior_by_passes
from cavity.learning.objectives.settling import Settled, Sweeper
from cavity.learning.results.result import Inference, Posterior
from cavity.learning.results.sites_said import said_of
from cavity.models.base import AbstractModel
from cavity.numerics.linalg import with_escalating_jitter


def infer_by_passes(
    model: AbstractModel,
    data: AbstractTrainingData,
    method: AbstractMethod,
    jitter: float,
    *,
    sited: bool,
) -> Inference | None:
    """The posterior from passes over a table, whose rows have sites or are exact."""
    objective = fixed_objective(model, method.approximation)
    sweeper = Sweeper(data, method.solver)

    def at(jitter: float) -> tuple[tuple[Posterior, float, ConvergenceReport], bool]:
        used = jnp.asarray(jitter, data.exemplar.rows.x.dtype)
        point = At(objective, jnp.zeros_like(objective.origin), used)

        def found(settled: Settled) -> tuple[Posterior, float, ConvergenceReport]:
            total, sites, report = settled
            return *posterior_by_passes(point, data, total, sites), report

        if sited:
            whole = sweeper.at_settled(point, method.solver.tolerance, found)
        else:
            whole = (*posterior_by_passes(point, data), EXACT)
        return whole, bool(np.isfinite(whole[1]))

    (posterior, value, report), used = with_escalating_jitter(at, jitter)
    if sited:
        sweeper.close()
    if used is None:
        return None
    message = said_of(report)
    return Inference(posterior, -value, report.converged, message, used, report, None, None)
