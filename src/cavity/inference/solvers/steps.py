"""Compiled steps on the way to a fixed point: sweeps, Newton's method, and what they reached."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Sites, energy, negative_log_joint
from cavity.inference.problem import Problem
from cavity.inference.solvers.descent import Accelerated, Descent
from cavity.inference.solvers.driver import Limits, SweepRecord
from cavity.inference.solvers.newton import Solution, solve
from cavity.inference.solvers.parallel import Parallel, sweep
from cavity.inference.solvers.rowwise import Rowwise
from cavity.inference.solvers.sequential import Batches
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
    limits = Limits(
        tolerance=jnp.asarray(problem.attainable(solver.tolerance)),
        max_sweeps=jnp.asarray(solver.max_sweeps),
        step=None if solver.step is None else jnp.asarray(solver.step),
        longest=jnp.asarray(longest),
        enough=jnp.asarray(solver.enough),
    )
    kind = _Kind(solver.batch, solver.rowwise, downhill, solver.sweeps, solver.accepted)
    return _sweeps(problem, sites, limits, kind)


class _Kind(NamedTuple):
    """Settings of a solver that programs of sweeps depend on; names as of `FixedPointSolver`."""

    batch: int | None
    rowwise: bool
    downhill: bool
    sweeps: SweepSettings
    accepted: float


@compiled
def _sweeps(
    problem: Problem, sites: Sites, limits: Limits, kind: _Kind
) -> tuple[Sites, SweepRecord]:
    graph = frozen(problem.graph()).with_projections()
    chained = any(variable.chained for variable in graph.variables)
    pointwise = problem.approximation.evaluation_point is EvaluationPoint.MODE
    pointwise = pointwise and not problem.coupled
    if problem.uses_descent:
        return Accelerated(graph, limits, kind.sweeps).run(sites)
    if kind.rowwise and chained:
        return Parallel(graph, Limits(*limits[:2])).run(sites)
    if kind.rowwise:
        return Rowwise(graph, limits).run(sites)
    if kind.downhill:
        value_of = negative_log_joint if pointwise else energy
        return Descent(graph, limits, kind.sweeps, value_of).run(sites)
    if kind.batch is None:
        swept, record = Parallel(graph, limits, kind.sweeps).run(sites)
    elif chained:
        raise ValueError("states in time move in parallel sweeps: leave batch=None")
    elif not problem.scalar:
        raise ValueError(
            "sites on several values at once move in parallel sweeps: leave batch=None"
        )
    else:
        swept, record = Batches(graph, limits, kind.sweeps, batch=kind.batch).run(sites)
    swept = frozen(swept)
    if pointwise:
        # Newton's method may leap to where an exponential overflows, and rest there;
        # the first value is NaN for sites without a proper belief, above all others
        above = negative_log_joint(graph, sites)
        up = negative_log_joint(graph, swept) > above + kind.accepted * (1.0 + jnp.abs(above))
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
