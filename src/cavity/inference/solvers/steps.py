"""Compiled steps on the way to a fixed point: sweeps, Newton's method, and what they reached."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Sites, energy, negative_log_joint
from cavity.inference.problem import Problem
from cavity.inference.solvers.newton import Solution, solve
from cavity.inference.solvers.parallel import SweepRecord, descend, parallel, sweep
from cavity.inference.solvers.sequential import in_batches
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Array, Scalar

# The residual, in deviations, at which the double loop and damped sweeps count as converged.
MATCHED = 1e-6
# What Newton's method is to reach, in deviations, and in how many steps.
CLOSE, NEWTON_STEPS = 1e-9, 20


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
    )
    return _sweeps(problem, sites, *limits, batch=solver.batch, downhill=downhill)


@compiled
def _sweeps(
    problem: Problem,
    sites: Sites,
    tolerance: Scalar,
    max_sweeps: Array,
    longest: Scalar,
    step: Scalar | None,
    *,
    batch: int | None,
    downhill: bool,
) -> tuple[Sites, SweepRecord]:
    graph = frozen(problem.graph())
    pointwise = problem.approximation.evaluation_point is EvaluationPoint.MODE
    pointwise = pointwise and not problem.coupled
    limits = {"tolerance": tolerance, "max_sweeps": max_sweeps}
    if downhill:
        value_of = negative_log_joint if pointwise else energy
        return descend(graph, sites, **limits, value_of=value_of)
    if batch is not None:
        found, record = in_batches(graph, sites, batch=batch, step=step, **limits)
    else:
        found, record = parallel(graph, sites, step=step, longest=longest, **limits)
    found = frozen(found)
    if pointwise:
        # Newton's method may leap to where an exponential overflows, and rest there;
        # the first value is NaN for sites without a proper belief, above all others
        above = negative_log_joint(graph, sites)
        up = negative_log_joint(graph, found) > above + MATCHED * (1.0 + jnp.abs(above))
        known = (record.converged & ~up, jnp.where(up, jnp.inf, record.residual))
        record = eqx.tree_at(lambda r: (r.converged, r.residual), record, known)
    return found, record


@compiled
def residual_of(problem: Problem, sites: Sites) -> tuple[Array, Array]:
    """What a further sweep would change, in deviations, and the sites it would skip."""
    return sweep(problem.graph(), sites, 1.0)[1:]


def defined(problem: Problem, sites: Sites) -> bool:
    """Whether the energy is, which it is not where a belief or a cavity is improper."""
    return bool(np.isfinite(float(_energy(problem, sites))))


@compiled
def _energy(problem: Problem, sites: Sites) -> Scalar:
    return energy(problem.graph(), sites)


@compiled
def solved(problem: Problem, sites: Sites) -> Solution:
    """Newton's method in the sites, from where they are."""
    tolerance = problem.attainable(CLOSE)
    return solve(problem.graph(), sites, tolerance=tolerance, max_steps=NEWTON_STEPS)
