"""Bringing sites to their fixed point: sweeps first, and what converges where they fail."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from cavity.inference.approximations.approximations import ModeSearch
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Sites
from cavity.inference.problem import Problem
from cavity.inference.solvers.double_loop import double_loop
from cavity.inference.solvers.moment_descent import least
from cavity.inference.solvers.noise_continuation import WIDEST, NoiseContinuation
from cavity.inference.solvers.parallel import SweepRecord
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.inference.solvers.steps import (
    CLOSE,
    MATCHED,
    defined,
    residual_of,
    run_sweeps,
    solved,
)
from cavity.numerics.types import Array

# The residual at which sites are near enough: to start from, and to learn by.
NEAR = 1e-2
# The longest step of sweeps of coupled classes from the sites of nearby parameters, from where
# full steps, extrapolated, may run into a cycle.
GENTLE = 0.5
# The steps of damped sweeps, where full ones lead astray.
SHORT = (0.3, 0.1)
# Continuation to larger powers: the first step and the least one, as shares of the power.
FIRST_LENGTH, LEAST_LENGTH = 0.25, 1e-3
# Settings of the search for a mode by steps that are uphill.
TO_MODE = FixedPointSolver(tolerance=1e-4)


@dataclasses.dataclass(frozen=True)
class ConvergenceReport:
    """How the sites came about.

    Attributes:
        sweeps: sweeps made, those of the double loop's inner maxima included (0 where every
            factor is exact).
        residual: largest change of a moment that a further sweep would make, in deviations.
        skipped: sites skipped in the last sweep.
        finished_by: the algorithm that finished.
    """

    sweeps: int
    residual: float
    skipped: int
    finished_by: str


EXACT = ConvergenceReport(0, 0.0, 0, "exact")


class Attempt(NamedTuple):
    """What a rung of the ladder reached.

    Attributes:
        sites: the sites; None where there are none to go on from.
        steps: sweeps and steps made.
        converged: whether they count as a fixed point, to be verified.
    """

    sites: Sites | None
    steps: int
    converged: bool


Rung = Callable[[Problem, FixedPointSolver, Sites, Sites], Attempt]


def find_fixed_point(
    problem: Problem,
    solver: FixedPointSolver,
    sites: Sites | None = None,
    *,
    zero: Sites | None = None,
    quick: bool = False,
) -> tuple[Sites, ConvergenceReport, bool]:
    """The sites at their fixed point, how they got there, and whether they did.

    Args:
        problem: the problem, with some factor that stores sites.
        solver: the settings.
        sites: where to start; None for precision zero, from where sweeps are tried again if they
            fail from another start. Power EP of coupled classes makes half steps at most from
            given sites.
        zero: sites of precision zero, where they are at hand.
        quick: whether to leave out the fallbacks that may take long.
    """
    zero = problem.empty_sites() if zero is None else zero
    first = zero if sites is None else sites
    to_mode = problem.approximation.evaluation_point is EvaluationPoint.MODE
    # Newton's steps to a mode are whole
    gentle = problem.coupled and first is not zero and not to_mode
    found, record = run_sweeps(problem, solver, first, longest=GENTLE if gentle else 1.0)
    used = int(record.sweeps)
    uphill = to_mode and not problem.coupled
    if not record.converged and (sites is not None or uphill):
        start, more = _uphill(problem, zero) if uphill else (zero, 0)
        other, again = run_sweeps(problem, solver, start)
        used += more + int(again.sweeps)
        if not _worse(again, record):
            found, record = other, again
    name = _sweeps_name(problem, solver)
    report = ConvergenceReport(used, float(record.residual), _count(record.skipped), name)
    if record.converged:
        return found, report, True
    if not defined(problem, found):
        found = zero
    if problem.coupled:
        return _damped(problem, solver, zero, found, report)
    if "Newton's method" not in solver.rungs or problem.blocked:
        matched = problem.attainable(max(solver.tolerance, MATCHED))
        return found, report, report.residual < matched and report.skipped == 0
    near = solved(problem, found)
    if float(near.gap) < problem.attainable(CLOSE):
        steps = used + int(near.steps)
        return near.sites, ConvergenceReport(steps, float(near.gap), 0, "Newton's method"), True
    if quick:
        return found, report, False
    return _fallen_back(problem, solver, zero, found, report)


def _fallen_back(
    problem: Problem,
    solver: FixedPointSolver,
    zero: Sites,
    found: Sites,
    report: ConvergenceReport,
) -> tuple[Sites, ConvergenceReport, bool]:
    """What converges where neither sweeps do nor Newton's method from where they end."""
    again, steps, name = found, 0, report.finished_by
    for rung, rung_name in _ladder(problem, solver):
        attempt = rung(problem, solver, zero, again)
        steps += attempt.steps
        again = again if attempt.sites is None else attempt.sites
        name = rung_name
        if attempt.converged:
            break
    matched = problem.attainable(max(solver.tolerance, MATCHED))
    residual, skipped = residual_of(problem, again)
    done = float(residual) < matched and int(skipped) == 0
    better = report.skipped > 0 or float(residual) < report.residual
    if not done and not (better and defined(problem, again)):
        return found, report, False
    steps += report.sweeps
    return again, ConvergenceReport(steps, float(residual), _count(skipped), name), done


def _ladder(problem: Problem, solver: FixedPointSolver) -> Iterator[tuple[Rung, str]]:
    """The rungs for a problem that the settings leave in, and what a report calls them."""
    if problem.variational:
        rungs = (("line search", line_search, "line search"),)
    else:
        rungs = (
            ("continuation in the power", continue_in_power, "Newton's method"),
            ("noise continuation", continue_in_noise, "Newton's method"),
            ("moment descent", descend_in_moments, "free energy"),
            ("double loop", run_double_loop, "double loop"),
        )
    return ((rung, name) for key, rung, name in rungs if key in solver.rungs)


def _damped(
    problem: Problem,
    solver: FixedPointSolver,
    zero: Sites,
    found: Sites,
    report: ConvergenceReport,
) -> tuple[Sites, ConvergenceReport, bool]:
    """Sweeps of fixed short steps until near, then the usual ones: for coupled classes.

    Their messages are not linear in the sites, which Newton's method and the double loop need.
    """
    if solver.step is not None or "damped sweeps" not in solver.rungs:
        return found, report, False
    matched = problem.attainable(max(solver.tolerance, MATCHED))
    near, used = zero, report.sweeps
    for step in SHORT:
        slow = dataclasses.replace(solver, step=step, tolerance=max(NEAR, solver.tolerance))
        near, record = run_sweeps(problem, slow, near)
        used += int(record.sweeps)
        if not defined(problem, near):
            near = zero
            continue
        last, record = run_sweeps(problem, solver, near)
        used += int(record.sweeps)
        residual = float(record.residual)
        if residual < matched and record.skipped == 0:
            return last, ConvergenceReport(used, residual, 0, "damped sweeps"), True
        if residual < report.residual and defined(problem, last):
            found, skipped = last, _count(record.skipped)
            report = ConvergenceReport(used, residual, skipped, report.finished_by)
    return found, dataclasses.replace(report, sweeps=used), False


def _uphill(problem: Problem, zero: Sites) -> tuple[Sites, int]:
    """Sites near the mode, and the sweeps that took."""
    found, record = run_sweeps(problem.approximated_by(ModeSearch()), TO_MODE, zero, downhill=True)
    return found, int(record.sweeps)


def _worse(a: SweepRecord, b: SweepRecord) -> bool:
    """Whether sweeps ended further from convergence than others."""
    if bool(a.converged) or bool(b.converged):
        return not bool(a.converged)
    return float(a.residual) + float(a.skipped) > float(b.residual) + float(b.skipped)


def _sweeps_name(problem: Problem, solver: FixedPointSolver) -> str:
    """What sweeps are called in a report."""
    if problem.approximation.evaluation_point is EvaluationPoint.MODE:
        return "Newton's method"
    if solver.batch is None:
        return "parallel sweeps"
    return "sequential sweeps" if solver.batch == 1 else "minibatch sweeps"


def _count(skipped: Array) -> int:
    return round(float(skipped)) if np.isfinite(float(skipped)) else 0


# ---- rungs: each takes the problem, the settings, sites of precision zero and the best sites


def line_search(problem: Problem, solver: FixedPointSolver, zero: Sites, near: Sites) -> Attempt:
    """Descent on the variational bound by natural-gradient steps, at power 0."""
    lower, record = run_sweeps(problem, solver, zero, downhill=True)
    # rounding hides the last of the descent from the energy
    found = solved(problem, lower)
    return Attempt(found.sites, int(record.sweeps) + int(found.steps), True)


def continue_in_power(
    problem: Problem, solver: FixedPointSolver, zero: Sites, near: Sites
) -> Attempt:
    """Continuation in the power, from a smaller one at which sweeps converge."""
    share, sites, steps = _converging_power(problem, solver, zero)
    if share == 0.0:
        return Attempt(zero, steps, False)
    length = FIRST_LENGTH
    while length > LEAST_LENGTH:
        reach = min(share + length, 1.0)
        found = solved(problem.at_power_share(reach), sites)
        steps += int(found.steps)
        if float(found.gap) < problem.attainable(CLOSE):
            if reach == 1.0:
                return Attempt(found.sites, steps, True)
            share, sites, length = reach, found.sites, 2.0 * length
        else:
            length *= 0.5
    return Attempt(sites, steps, False)


def _converging_power(
    problem: Problem, solver: FixedPointSolver, zero: Sites
) -> tuple[float, Sites, int]:
    """A share of the power at which sweeps converge, their sites, and the sweeps that took.

    The share is 0, and the sites have precision zero, where they converge at none.
    """
    steps = 0
    for share in (0.5, 0.25, 0.1):
        sites, record = run_sweeps(problem.at_power_share(share), solver, zero)
        steps += int(record.sweeps)
        if float(record.residual) < NEAR and float(record.skipped) == 0:
            return share, sites, steps
    return 0.0, zero, steps


def continue_in_noise(
    problem: Problem, solver: FixedPointSolver, zero: Sites, near: Sites
) -> Attempt:
    """Continuation from wider noise to the noise of the likelihood, round folds."""
    if not problem.has_noise_scale:
        return Attempt(None, 0, False)
    start, record = run_sweeps(problem.at_noise_scale(WIDEST), solver, zero)
    steps = int(record.sweeps)
    if not record.converged:
        return Attempt(None, steps, False)
    ends, looks = NoiseContinuation(problem).ahead(start)
    for sites in ends or ():
        found = solved(problem, sites)
        if float(found.gap) < problem.attainable(CLOSE):
            return Attempt(found.sites, steps + looks, True)
    return Attempt(None, steps + looks, False)


def descend_in_moments(
    problem: Problem, solver: FixedPointSolver, zero: Sites, near: Sites
) -> Attempt:
    """Descent of the free energy in the moments."""
    lowest, steps = least(problem, problem.attainable(CLOSE))
    return Attempt(lowest, steps, lowest is not None)


def run_double_loop(
    problem: Problem, solver: FixedPointSolver, zero: Sites, near: Sites
) -> Attempt:
    """The double loop, from the best sites so far."""
    sites, steps = double_loop(problem, zero, near)
    return Attempt(sites, steps, True)
