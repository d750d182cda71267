"""What a result says of how its sites were found."""

from cavity.inference.solvers.convergence import EXACT, ConvergenceReport
from cavity.numerics.text import plural

# What finished, where it was not plain sweeps.
_BY = {
    "continuation in the power": " of continuation in the power",
    "damped sweeps": " (damped at first)",
    "line search": " of the line search",
    "moment descent": " of a descent of the free energy",
    "Newton's method": " of Newton's method",
    "noise continuation": " of continuation in the noise",
}


def said_of(report: ConvergenceReport) -> str:
    """A sentence on how sites were found."""
    if report is EXACT:
        return "closed form"
    count = plural(report.sweeps, "sweep")
    if report.converged:
        return f"sites converged after {count}{_BY.get(report.finished_by, '')}"
    return (
        f"sites did not converge: {count} left a residual of {report.residual:.2g} deviations and "
        f"{plural(report.skipped, 'site')} skipped"
    )
