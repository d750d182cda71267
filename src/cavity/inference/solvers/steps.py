"""Compiled steps on the way to a fixed point: sweeps, Newton's method, and what they reached."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Sites, energy, negative_log_joint
from cavity.inference.problem import Problem
from cavity.inference.solvers.descent import accelerated, descend
from cavity.inference.solvers.newton import Solution, solve
from cavity.inference.solvers.parallel import SweepRecord, parallel, sweep
from cavity.inference.solvers.rowwise import rowwise
from cavity.inference.solvers.sequential import minibatch_sweeps
from cavity.inference.solvers.settings import FixedPointSolver, NewtonSettings, SweepSettings
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Array, Scalar


def run_sweeps(
    problem: Problem,
    solver: FixedPointSolver,
    sites: Sites,
    *,
    longest: float = 1.0,
    downhill: bool = False,
) -> tuple[Sites, SweepRecord]:
    """Sweeps with the settings of a solver, or each of them shortened until it goes downhill.

    Args:
        problem: the problem.
        solver: the settings.
        sites: where to start.
        longest: the longest step of parallel sweeps, where steps are adapted; batches ignore it.
        downhill: whether to shorten each sweep until it goes downhill.
    """
    step = None if solver.step is None else jnp.asarray(solver.step)
    limits = (
        jnp.asarray(problem.attainable(solver.tolerance)),
        jnp.asarray(solver.max_sweeps),
        jnp.asarray(longest),
        step,
        jnp.asarray(solver.enough),
    )
    static = {"batch": solver.batch, "downhill": downhill, "settings": solver.sweeps}
    if problem.uses_descent:
        return _accelerated_descent(problem, sites, *limits[:2], limits[-1], solver.sweeps)
    if solver.rowwise:
        return _rowwise_sweeps(problem, sites, *limits[:2])
    return _sweeps(problem, sites, *limits, **static, accepted=solver.accepted)


@compiled
def _rowwise_sweeps(
    problem: Problem, sites: Sites, tolerance: Scalar, max_sweeps: Array
) -> tuple[Sites, SweepRecord]:
    graph = frozen(problem.graph()).with_projections()
    if any(variable.chained for variable in graph.variables):
        return parallel(graph, sites, step=None, tolerance=tolerance, max_sweeps=max_sweeps)
    return rowwise(graph, sites, tolerance=tolerance, max_sweeps=max_sweeps)


@compiled
def _accelerated_descent(
    problem: Problem,
    sites: Sites,
    tolerance: Scalar,
    max_sweeps: Array,
    enough: Scalar,
    settings: SweepSettings,
) -> tuple[Sites, SweepRecord]:
    graph = frozen(problem.graph()).with_projections()
    limits = {"tolerance": tolerance, "max_sweeps": max_sweeps, "enough": enough}
    return accelerated(graph, sites, **limits, settings=settings)


@compiled
def _sweeps(
    problem: Problem,
    sites: Sites,
    tolerance: Scalar,
    max_sweeps: Array,
    longest: Scalar,
    step: Scalar | None,
    enough: Scalar,
    *,
    batch: int | None,
    downhill: bool,
    settings: SweepSettings,
    accepted: float,
) -> tuple[Sites, SweepRecord]:
    graph = frozen(problem.graph()).with_projections()
    pointwise = problem.approximation.evaluation_point is EvaluationPoint.MODE
    pointwise = pointwise and not problem.coupled
    limits = {"tolerance": tolerance, "max_sweeps": max_sweeps, "settings": settings}
    if downhill:
        value_of = negative_log_joint if pointwise else energy
        return descend(graph, sites, **limits, value_of=value_of)
    if batch is not None:
        if any(variable.chained for variable in graph.variables):
            raise ValueError("states in time move in parallel sweeps: leave batch=None")
        swept, record = minibatch_sweeps(graph, sites, batch=batch, step=step, **limits)
    else:
        swept, record = parallel(graph, sites, step=step, longest=longest, enough=enough, **limits)
    swept = frozen(swept)
    if pointwise:
        # Newton's method may leap to where an exponential overflows, and rest there;
        # the first value is NaN for sites without a proper belief, above all others
        above = negative_log_joint(graph, sites)
        up = negative_log_joint(graph, swept) > above + accepted * (1.0 + jnp.abs(above))
        verdict = (record.converged & ~up, jnp.where(up, jnp.inf, record.residual))
        record = eqx.tree_at(lambda r: (r.converged, r.residual), record, verdict)
    return swept, record


@compiled
def residual_of(problem: Problem, sites: Sites) -> tuple[Array, Array]:
    """Residual of a further sweep, in deviations, and the number of sites that it would skip."""
    return sweep(problem.graph(), sites, 1.0)[1:]


def is_defined(problem: Problem, sites: Sites) -> bool:
    """True if the energy is finite: not where a belief or a cavity is improper."""
    return bool(np.isfinite(energy_of(problem, sites)))


def energy_of(problem: Problem, sites: Sites) -> float:
    """The energy; NaN or infinite where a belief or a cavity is improper."""
    return float(_energy(problem, sites))


@compiled
def _energy(problem: Problem, sites: Sites) -> Scalar:
    return energy(problem.graph(), sites)


def newton_from(problem: Problem, solver: FixedPointSolver, sites: Sites) -> Solution:
    """Newton's method in the sites, from where they are."""
    tolerance = jnp.asarray(problem.attainable(solver.newton.tolerance))
    return _newton(problem, sites, tolerance, settings=solver.newton)


@compiled
def _newton(
    problem: Problem, sites: Sites, tolerance: Scalar, *, settings: NewtonSettings
) -> Solution:
    return solve(problem.graph().with_projections(), sites, tolerance=tolerance, settings=settings)


def at_fixed_point(problem: Problem, solver: FixedPointSolver, solution: Solution) -> bool:
    """True if Newton's method reached a fixed point, as near as the precision allows."""
    return float(solution.gap) < problem.attainable(solver.newton.tolerance)
