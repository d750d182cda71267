"""Sites on weights of several layers: plain sweeps until near, then extrapolated ones."""

import dataclasses

import numpy as np

from cavity.inference.energy import Sites
from cavity.inference.problem import Problem
from cavity.inference.solvers.convergence import ConvergenceReport, count, is_accepted
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.inference.solvers.steps import is_defined, run_sweeps


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
    warm = first is not zero
    if solver.step is not None:
        return _swept(problem, solver, first)
    best, report = first, _NOTHING
    extrapolating = _extrapolating(solver)
    if warm:
        best, report = _swept(problem, extrapolating, first)
        if report.converged:
            return best, report
    sweeps = report.sweeps
    steps = solver.layers.steps
    steps = steps[:1] if quick or "damped sweeps" not in solver.rungs else steps
    for step in steps:
        near, record = run_sweeps(problem, _plain(solver, step), first if quick else zero)
        sweeps += int(record.sweeps)
        if not is_defined(problem, near):
            continue
        # where an extrapolation led nowhere, plain sweeps to the end
        for how in (extrapolating, _plain(solver, step, to_end=True)):
            swept, found = _swept(problem, how, near)
            sweeps += found.sweeps
            if found.converged or found.residual < report.residual:
                best, report = swept, found
            if report.converged or not bool(record.converged):
                break
        if report.converged:
            break
    return best, dataclasses.replace(report, sweeps=sweeps)


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


def _plain(solver: FixedPointSolver, step: float, *, to_end: bool = False) -> FixedPointSolver:
    """Settings of plain sweeps of a fixed step, until near or to the end."""
    layers = solver.layers
    enough = 0.5 * solver.accepted if to_end else layers.nearby
    return dataclasses.replace(
        solver,
        step=step,
        tolerance=max(enough, solver.tolerance),
        max_sweeps=layers.rounds * solver.max_sweeps,
        sweeps=dataclasses.replace(solver.sweeps, patience=layers.patience),
    )
