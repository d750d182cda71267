"""Fits averaged over their parameters: learned under priors, then integrated about the mode."""

import dataclasses

from cavity.inference.solvers.settings import FixedPointSolver, SweepSettings
from cavity.learning.failures import NumericalError
from cavity.learning.integration.integrate import integrated_over
from cavity.learning.methods.methods import PowerEP
from cavity.learning.results.result import FitResult

# Numbers to average over at the most: a design of nine has 147 points.
MOST = 9
# Sweeps without coming a tenth closer, after which they end.
PATIENCE = 15


class Quick(PowerEP):
    """Power EP at many values of the parameters: sites to some digits, and no ladder.

    Values at which sweeps come no closer mostly have little of the density.
    """

    @property
    def solver(self) -> FixedPointSolver:
        return dataclasses.replace(super().solver, sweeps=SweepSettings(patience=PATIENCE))


QUICK = Quick(coupled=False, fallback=False, tolerance=1e-4, max_sweeps=100)


def averaged(result: FitResult, names: tuple[str, ...]) -> FitResult:
    """A result with parameters averaged over about their mode, under the priors of the fit.

    Up to three numbers take a coarse grid along the axes of the Hessian, more a central composite
    design.

    Args:
        result: a fit in memory by `QUICK`, under priors of these parameters.
        names: dotted names of the parameters.
    """
    data = result.data
    assert data is not None
    try:
        found = integrated_over(result, data, QUICK, names, "coarse")
    except NumericalError as failure:
        message = f"{result.message}; not averaged over its parameters: {failure}"
        return result.judged(message, converged=False)
    learned = "" if result.converged else f"{result.message}; "
    return dataclasses.replace(
        result,
        posterior=found.posterior,
        log_evidence=found.log_evidence,
        converged=result.converged and found.converged,
        sites=dataclasses.replace(result.sites, converged=found.converged),
        message=f"{learned}averaged over {', '.join(names)}: {found.message}",
    )
