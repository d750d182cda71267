"""Sites on weights of several layers: plain sweeps until near, then extrapolated ones."""

import dataclasses
from typing import NamedTuple

import numpy as np

from cavity.inference.energy import Sites
from cavity.inference.problem import Problem
from cavity.inference.solvers.convergence import ConvergenceReport, count, is_accepted
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.inference.solvers.steps import energy_of, is_defined, run_sweeps


def settle_layers(
    problem: Problem, solver: FixedPointSolver, zero: Sites, first: Sites, *, quick: bool
) -> tuple[Sites, ConvergenceReport]:
    """Plain sweeps of fixed steps until near, then the usual ones, for weights of several layers.

    On their way units lose or find their part, which takes many sweeps that hardly move: an
    extrapolation there leads astray. Sites of nearby parameters are extrapolated from at once.

    Args:
        problem: the problem.
        solver: the settings.
        zero: sites that a search starts from.
        first: the same, or sites of nearby parameters.
        quick: whether to leave out what may take long.
    """
    if solver.step is not None:
        return _swept(problem, solver, first)
    best, report = first, _NOTHING
    steps = solver.layers.steps
    steps = steps if "damped sweeps" in solver.rungs else steps[:1]
    steps = steps[-1:] if quick else steps
    if first is not zero:
        best, report = _extrapolated(problem, solver, steps[-1], first)
        if report.residual < solver.layers.nearby:  # a search from afar ends in another mode
            return best, report
    sweeps = report.sweeps
    for step in steps:
        if report.converged:
            break
        walked = _walked(problem, solver, step, first if quick else zero, quick=quick)
        if walked is None:
            continue
        ended, found = _extrapolated(problem, solver, step, walked.sites)
        sweeps += walked.sweeps + found.sweeps
        if found.converged or found.residual < report.residual:
            best, report = ended, found
    return best, dataclasses.replace(report, sweeps=sweeps)


def _extrapolated(
    problem: Problem, solver: FixedPointSolver, step: float, sites: Sites
) -> tuple[Sites, ConvergenceReport]:
    """The usual sweeps; where these end near a fixed point, plain ones and again, in turn."""
    best, report, sweeps = sites, _NOTHING, 0
    for turn in range(solver.layers.extrapolations):
        if turn:
            sites, record = run_sweeps(problem, _plain(solver, step), best)
            sweeps += int(record.sweeps)
        swept, found = _swept(problem, _extrapolating(solver), sites)
        sweeps += found.sweeps
        closer = found.converged or found.residual < report.residual
        if closer:
            best, report = swept, found
        if report.converged or not closer or not report.residual < solver.layers.nearby:
            break
    return best, dataclasses.replace(report, sweeps=sweeps)


class _Walk(NamedTuple):
    """State of plain sweeps.

    Attributes:
        sites: the last sites.
        sweeps: sweeps made.
    """

    sites: Sites
    sweeps: int


def _walked(
    problem: Problem, solver: FixedPointSolver, step: float, sites: Sites, *, quick: bool
) -> _Walk | None:
    """Plain sweeps while energy or residual fall; None where the step is too long.

    The residual alone is no criterion: it is small near saddle points, where a hidden unit takes
    one of several equivalent places, and grows again after them.
    """
    layers = solver.layers
    settings = dataclasses.replace(_plain(solver, step), tolerance=layers.nearby)
    sweeps, stalls, least, nearest = 0, 0, np.inf, np.inf
    for _ in range(layers.quick_rounds if quick else layers.rounds):
        sites, record = run_sweeps(problem, settings, sites)
        sweeps, residual = sweeps + int(record.sweeps), float(record.residual)
        value = energy_of(problem, sites)
        if not np.isfinite(value) or not residual < layers.too_far:
            return None
        if bool(record.converged):
            break
        closer = residual < 0.9 * nearest
        stalls = 0 if closer or value < least - layers.least_fall else stalls + 1
        least, nearest = min(least, value), residual if closer else nearest
        if stalls == layers.stalls:
            break
    return _Walk(sites, sweeps)


_NOTHING = ConvergenceReport(0, np.inf, 0, "parallel sweeps", converged=False)


def _swept(
    problem: Problem, solver: FixedPointSolver, sites: Sites
) -> tuple[Sites, ConvergenceReport]:
    """The usual sweeps; sites without a proper belief count as infinitely far."""
    swept, record = run_sweeps(problem, solver, sites)
    residual, skipped = float(record.residual), float(record.skipped)
    converged = bool(record.converged) or is_accepted(problem, solver, residual, skipped)
    if not converged and not is_defined(problem, swept):
        residual = np.inf
    sweeps = int(record.sweeps)
    return swept, ConvergenceReport(sweeps, residual, count(skipped), "parallel sweeps", converged)


def _extrapolating(solver: FixedPointSolver) -> FixedPointSolver:
    """Settings of extrapolated sweeps for layers."""
    anderson = dataclasses.replace(solver.sweeps.anderson, ridge=solver.layers.ridge)
    return dataclasses.replace(
        solver, sweeps=dataclasses.replace(solver.sweeps, anderson=anderson)
    )


def _plain(solver: FixedPointSolver, step: float) -> FixedPointSolver:
    """Settings of a round of plain sweeps of a fixed step."""
    count = solver.layers.round
    sweeps = dataclasses.replace(solver.sweeps, patience=count, last=True)
    return dataclasses.replace(solver, step=step, max_sweeps=count, enough=0.0, sweeps=sweeps)
