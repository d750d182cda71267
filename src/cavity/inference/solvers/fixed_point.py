"""Search for the fixed point of sites: sweeps first, and fallback solvers where they fail."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax

from cavity.inference.approximations.approximations import ModeSearch
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Sites
from cavity.inference.problem import Problem
from cavity.inference.solvers.convergence import ConvergenceReport, count, is_accepted
from cavity.inference.solvers.driver import SweepRecord
from cavity.inference.solvers.layers import settle_layers
from cavity.inference.solvers.moment_descent import minimise_free_energy
from cavity.inference.solvers.noise_continuation import NoiseContinuation
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.inference.solvers.steps import (
    at_fixed_point,
    is_defined,
    newton_from,
    residual_of,
    run_sweeps,
)

# Settings of the search for a mode by steps with a line search.
TO_MODE = FixedPointSolver(tolerance=1e-4)


class Attempt(NamedTuple):
    """Result of one rung of the ladder of solvers.

    Attributes:
        sites: the sites; None where there are none to go on from.
        steps: sweeps and steps made.
        converged: whether they count as a fixed point, to be verified.
    """

    sites: Sites | None
    steps: int
    converged: bool


class _Search(NamedTuple):
    """Sweeps that did not converge, from where other solvers go on.

    Attributes:
        problem: the problem.
        solver: the settings.
        zero: sites of precision zero.
        swept: where sweeps ended.
        report: how they ended.
    """

    problem: Problem
    solver: FixedPointSolver
    zero: Sites
    swept: Sites
    report: ConvergenceReport


Found = tuple[Sites, ConvergenceReport]
Rung = Callable[[Problem, FixedPointSolver, Sites], Attempt]


def find_fixed_point(
    problem: Problem,
    solver: FixedPointSolver,
    sites: Sites | None = None,
    *,
    zero: Sites | None = None,
    quick: bool = False,
) -> Found:
    """The sites at their fixed point, and how they got there.

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
    if problem.uses_descent:
        return _descended(problem, solver, first, zero)
    if problem.layered:
        return settle_layers(problem, solver, zero, first, quick=quick)
    to_mode = problem.approximation.evaluation_point is EvaluationPoint.MODE
    # Newton's steps to a mode are whole
    warm = problem.coupled and first is not zero and not to_mode
    longest = solver.warm_step if warm else 1.0
    swept, record = run_sweeps(problem, solver, first, longest=longest)
    sweeps = int(record.sweeps)
    search = to_mode and not problem.coupled
    if not record.converged and (sites is not None or search):
        start, more = _mode_sites(problem, zero) if search else (zero, 0)
        other, again = run_sweeps(problem, solver, start)
        sweeps += more + int(again.sweeps)
        if not _is_worse(again, record):
            swept, record = other, again
    name = _sweeps_name(problem, solver)
    converged = bool(record.converged)
    residual, skipped = float(record.residual), count(record.skipped)
    report = ConvergenceReport(sweeps, residual, skipped, name, converged)
    if converged:
        return swept, report
    if not is_defined(problem, swept):
        swept = zero
    search = _Search(problem, solver, zero, swept, report)
    if problem.coupled:
        return _damped(search)
    if problem.flat:
        return _weight_sites(search, quick=quick)
    if solver.rungs and not problem.scalar:
        return _on_several_values(search, first)
    if "Newton's method" not in solver.rungs or problem.blocked:
        accepted = is_accepted(problem, solver, residual, skipped)
        return swept, dataclasses.replace(report, converged=accepted)
    near, by_newton = _run_newton(search)
    if by_newton.converged or quick:
        return near, by_newton
    return _climb(search)


def _descended(problem: Problem, solver: FixedPointSolver, first: Sites, zero: Sites) -> Found:
    """Sites that minimise the energy, by natural-gradient steps."""
    swept, record = run_sweeps(problem, solver, first)
    sweeps = int(record.sweeps)
    if not is_defined(problem, swept) and first is not zero:
        swept, record = run_sweeps(problem, solver, zero)
        sweeps += int(record.sweeps)
    residual, converged = float(record.residual), bool(record.converged)
    return swept, ConvergenceReport(sweeps, residual, 0, "natural-gradient steps", converged)


def _climb(search: _Search) -> Found:
    """The rungs of the ladder, one after the other, until one converges."""
    problem, solver, zero, swept, report = search
    sites, steps, name = swept, report.sweeps, report.finished_by
    for rung, rung_name in _ladder(problem, solver):
        attempt = rung(problem, solver, zero)
        steps += attempt.steps
        sites = sites if attempt.sites is None else attempt.sites
        name = rung_name
        if attempt.converged:
            break
    residual, skipped = (float(x) for x in residual_of(problem, sites))
    converged = is_accepted(problem, solver, residual, skipped)
    better = report.skipped > 0 or residual < report.residual
    if not converged and not (better and is_defined(problem, sites)):
        return swept, report
    return sites, ConvergenceReport(steps, residual, count(skipped), name, converged)


def _ladder(problem: Problem, solver: FixedPointSolver) -> Iterator[tuple[Rung, str]]:
    """The fallback solvers for a problem that the settings allow, in order, with their names."""
    if problem.variational:
        rungs = (("line search", line_search),)
    else:
        rungs = (
            ("continuation in the power", continue_in_power),
            ("noise continuation", continue_in_noise),
            ("moment descent", descend_in_moments),
        )
    return ((rung, name) for name, rung in rungs if name in solver.rungs)


def _on_several_values(search: _Search, first: Sites) -> Found:
    """Descent on the variational bound at power 0, or damped sweeps from where sweeps began.

    Those of sites on several values: states in time, inducing variables of functions of them.
    """
    problem, solver, _, swept, report = search
    if not problem.variational or "line search" not in solver.rungs:
        return _damped(search._replace(zero=first))
    lower, record = run_sweeps(problem, solver, first, downhill=True)
    sweeps, residual = report.sweeps + int(record.sweeps), float(record.residual)
    accepted = is_accepted(problem, solver, residual, float(record.skipped))
    if not (accepted or residual < report.residual):
        return swept, dataclasses.replace(report, sweeps=sweeps)
    skipped = count(record.skipped)
    return lower, ConvergenceReport(sweeps, residual, skipped, "line search", accepted)


def _damped(search: _Search) -> Found:
    """Sweeps of fixed short steps until near, then the usual ones: all but scalar sites.

    Where these do not settle either, the sites are those of all attempts with the least residual.
    Newton's method needs messages that are linear in the sites, and projections of variables.
    """
    problem, solver, zero, swept, report = search
    if solver.step is not None or "damped sweeps" not in solver.rungs:
        return swept, report
    near, sweeps, best = zero, report.sweeps, swept
    for step in solver.damped_steps:
        tolerance = max(solver.nearby, solver.tolerance)
        slow = dataclasses.replace(solver, step=step, tolerance=tolerance)
        near, record = run_sweeps(problem, slow, near)
        sweeps += int(record.sweeps)
        if not is_defined(problem, near):
            near = zero
            continue
        last, record = run_sweeps(problem, solver, near)
        sweeps += int(record.sweeps)
        residual, skipped = float(record.residual), count(record.skipped)
        if is_accepted(problem, solver, residual, float(record.skipped)):
            return last, ConvergenceReport(sweeps, residual, 0, "damped sweeps")
        if residual < report.residual and is_defined(problem, last):
            best = last
            report = dataclasses.replace(report, residual=residual, skipped=skipped)
    return best, dataclasses.replace(report, sweeps=sweeps)


def _run_newton(search: _Search) -> Found:
    """Run Newton's method from the sweeps' sites; keep these if it reaches no fixed point."""
    problem, solver, _, swept, report = search
    solution = newton_from(problem, solver, swept)
    if not at_fixed_point(problem, solver, solution):
        return swept, report
    steps = report.sweeps + int(solution.steps)
    return solution.sites, ConvergenceReport(steps, float(solution.gap), 0, "Newton's method")


def _weight_sites(search: _Search, *, quick: bool) -> Found:
    """Newton's method where sites are few and scalar, then damped sweeps, for weights.

    Sites on blocks of weights, for which there is no Newton's method, take plain sweeps at last.

    Powers of a prior's sites do not move with those of the data, nor does its scale with the
    noise, so that nothing is gained by a continuation in either.
    """
    problem, solver, zero, swept, report = search
    numbers = sum(x.size for x in jax.tree.leaves(swept))
    few = problem.scalar and numbers <= solver.newton.most_weights
    if "Newton's method" in solver.rungs and few:
        swept, report = _run_newton(search)
    if report.converged or quick:
        return swept, report
    swept, report = _damped(search._replace(swept=swept, report=report))
    if report.converged or problem.scalar or "damped sweeps" not in solver.rungs:
        return swept, report
    plain, found = settle_layers(problem, solver, zero, zero, quick=False)
    sweeps = report.sweeps + found.sweeps
    if found.converged or found.residual < report.residual:
        swept, report = plain, found
    return swept, dataclasses.replace(report, sweeps=sweeps)


def _mode_sites(problem: Problem, zero: Sites) -> tuple[Sites, int]:
    """Sites near the mode, and the sweeps that took."""
    search = problem.approximated_by(ModeSearch())
    sites, record = run_sweeps(search, TO_MODE, zero, downhill=True)
    return sites, int(record.sweeps)


def _is_worse(a: SweepRecord, b: SweepRecord) -> bool:
    """True if the first sweeps ended further from convergence than the second."""
    if bool(a.converged) or bool(b.converged):
        return not bool(a.converged)
    return float(a.residual) + float(a.skipped) > float(b.residual) + float(b.skipped)


def _sweeps_name(problem: Problem, solver: FixedPointSolver) -> str:
    """Name of sweeps in a report."""
    if problem.approximation.evaluation_point is EvaluationPoint.MODE:
        return "Newton's method"
    if solver.batch is None:
        return "parallel sweeps"
    return "sequential sweeps" if solver.batch == 1 else "minibatch sweeps"


# ---- rungs: each takes the problem, the settings and sites of precision zero


def line_search(problem: Problem, solver: FixedPointSolver, zero: Sites) -> Attempt:
    """Descent on the variational bound by natural-gradient steps, at power 0."""
    lower, record = run_sweeps(problem, solver, zero, downhill=True)
    # rounding hides the last of the descent from the energy
    solution = newton_from(problem, solver, lower)
    return Attempt(solution.sites, int(record.sweeps) + int(solution.steps), True)


def continue_in_power(problem: Problem, solver: FixedPointSolver, zero: Sites) -> Attempt:
    """Continuation in the power, from a smaller one at which sweeps converge."""
    share, sites, steps = _converging_power(problem, solver, zero)
    if share == 0.0:
        return Attempt(zero, steps, False)
    length = solver.continuation.first_step
    while length > solver.continuation.least_step:
        reach = min(share + length, 1.0)
        solution = newton_from(problem.at_power_share(reach), solver, sites)
        steps += int(solution.steps)
        if at_fixed_point(problem, solver, solution):
            if reach == 1.0:
                return Attempt(solution.sites, steps, True)
            share, sites, length = reach, solution.sites, 2.0 * length
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
    for share in solver.continuation.starts:
        sites, record = run_sweeps(problem.at_power_share(share), solver, zero)
        steps += int(record.sweeps)
        if float(record.residual) < solver.nearby and float(record.skipped) == 0:
            return share, sites, steps
    return 0.0, zero, steps


def continue_in_noise(problem: Problem, solver: FixedPointSolver, zero: Sites) -> Attempt:
    """Continuation from wider noise to the noise of the likelihood, round folds."""
    if not problem.has_noise_scale:
        return Attempt(None, 0, False)
    continuation = NoiseContinuation(problem, solver.noise)
    start, record = run_sweeps(continuation.start(), solver, zero)
    steps = int(record.sweeps)
    if not record.converged:
        return Attempt(None, steps, False)
    for sites in continuation.either_side_of_the_end(start):
        solution = newton_from(problem, solver, sites)
        if at_fixed_point(problem, solver, solution):
            return Attempt(solution.sites, steps + continuation.evaluations, True)
    return Attempt(None, steps + continuation.evaluations, False)


def descend_in_moments(problem: Problem, solver: FixedPointSolver, zero: Sites) -> Attempt:
    """Descent of the free energy in the moments."""
    sites, steps = minimise_free_energy(problem, solver)
    return Attempt(sites, steps, sites is not None)
