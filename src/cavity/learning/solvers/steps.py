"""Compiled steps on the way to a fixed point: sweeps, Newton's method, and what they reached."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.approximations.methods import AbstractMethod
from cavity.inference.energy import Graph, Sites, empty_sites, energy, negative_log_joint
from cavity.inference.solvers.newton import Solution, solve
from cavity.inference.solvers.parallel import SweepRecord, descend, parallel, sweep
from cavity.inference.solvers.sequential import in_batches
from cavity.learning.data.arrays import Data
from cavity.learning.solvers.double_loop import build_graph
from cavity.models.base import AbstractModel
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Array, Scalar

T = TypeVar("T")

# No tolerance is below this many rounding units.
ROUNDING = 100.0
# The residual, in deviations, at which the double loop and damped sweeps count as converged.
MATCHED = 1e-6
# What Newton's method is to reach, in deviations, and in how many steps.
CLOSE, NEWTON_STEPS = 1e-9, 20


def _program(fn: Callable[..., T]) -> Callable[..., T]:
    """Compiles a function of a model, data and a method once for all tolerances."""
    run = compiled(fn)

    def call(
        model: AbstractModel, data: Data, method: AbstractMethod, *rest: Any, **named: Any
    ) -> T:
        return run(model, data, method.program(), *rest, **named)

    return call


def no_sites(model: AbstractModel, data: Data, method: AbstractMethod) -> Sites | None:
    """Sites of precision zero; None where every factor is exact."""
    shapes = eqx.filter_eval_shape(
        lambda: empty_sites(build_graph(model, data, method, jnp.zeros((), data.rows.y.dtype)))
    )
    if not jax.tree.leaves(shapes):
        return None
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)


def attainable(tolerance: float, data: Data) -> float:
    """A tolerance that the precision of the data allows."""
    return max(tolerance, ROUNDING * float(jnp.finfo(data.rows.y.dtype).eps))


def run_sweeps(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: Scalar,
    sites: Sites,
    *,
    longest: float = 1.0,
    downhill: bool = False,
) -> tuple[Sites, SweepRecord]:
    """Sweeps by a method, or each of them shortened until it goes downhill.

    Args:
        model: the model.
        data: prepared data.
        method: how sites are found.
        jitter: of the covariance that is factorised.
        sites: where to start.
        longest: the longest step of parallel sweeps, where steps are adapted; batches ignore it.
        downhill: whether to shorten each sweep until it goes downhill.
    """
    limits = jnp.asarray(attainable(method.tolerance, data)), jnp.asarray(longest)
    return _sweeps(model, data, method, jitter, sites, *limits, downhill=downhill)


@_program
def _sweeps(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: Scalar,
    sites: Sites,
    tolerance: Scalar,
    longest: Scalar,
    *,
    downhill: bool,
) -> tuple[Sites, SweepRecord]:
    graph = build_graph(model, data, method, jitter)
    pointwise = method.evaluation_point is EvaluationPoint.MODE and not method.couples(
        model.likelihood
    )
    if downhill:
        limits = {"tolerance": tolerance, "max_sweeps": method.max_sweeps}
        value_of = negative_log_joint if pointwise else energy
        return descend(frozen(graph), sites, **limits, value_of=value_of)
    found, record = swept(graph, method, sites, tolerance, longest)
    assert record is not None
    if pointwise:
        # Newton's method may leap to where an exponential overflows, and rest there
        above = negative_log_joint(
            graph, sites
        )  # NaN for sites without a proper belief, above all else
        up = negative_log_joint(graph, found) > above + MATCHED * (1.0 + jnp.abs(above))
        known = (record.converged & ~up, jnp.where(up, jnp.inf, record.residual))
        record = eqx.tree_at(lambda r: (r.converged, r.residual), record, known)
    return found, record


def swept(
    graph: Graph,
    method: AbstractMethod,
    sites: Sites | None = None,
    tolerance: float | Scalar | None = None,
    longest: float | Scalar = 1.0,
) -> tuple[Sites, SweepRecord | None]:
    """Sites after sweeps, constant under differentiation; no record if all exact.

    `longest` is that of parallel sweeps: batches ignore it.
    """
    start = empty_sites(graph) if sites is None else sites
    if not jax.tree.leaves(start):
        return start, None
    tolerance = method.tolerance if tolerance is None else tolerance
    limits = {"step": method.step, "tolerance": tolerance, "max_sweeps": method.max_sweeps}
    if method.batch is None:
        found, record = parallel(frozen(graph), start, **limits, longest=longest)
    else:
        found, record = in_batches(frozen(graph), start, batch=method.batch, **limits)
    return frozen(found), record


@_program
def residual_of(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, sites: Sites
) -> tuple[Array, Array]:
    """What a further sweep would change, in deviations, and the sites it would skip."""
    return sweep(build_graph(model, data, method, jitter), sites, 1.0)[1:]


def defined(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, sites: Sites
) -> bool:
    """Whether the energy is, which it is not where a belief or a cavity is improper."""
    return bool(np.isfinite(float(_energy(model, data, method, jitter, sites))))


@_program
def _energy(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, sites: Sites
) -> Scalar:
    return energy(build_graph(model, data, method, jitter), sites)


@_program
def solved(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, sites: Sites
) -> Solution:
    """Newton's method in the sites, from where they are."""
    graph = build_graph(model, data, method, jitter)
    return solve(graph, sites, tolerance=attainable(CLOSE, data), max_steps=NEWTON_STEPS)
