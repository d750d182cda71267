"""Bringing sites to their fixed point: sweeps first, and what converges where they fail."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.batches import in_batches
from cavity.inference.energy import Graph, Sites, empty_sites, energy
from cavity.inference.methods import AbstractMethod, Laplace, ModeSearch, PowerEP
from cavity.inference.newton import Solution, solve
from cavity.inference.sweep import SweepRecord, descend, parallel, sweep
from cavity.learning.data import Data
from cavity.learning.least import least
from cavity.learning.outer_loop import double_loop, lay_out
from cavity.learning.path import WIDEST, Path, has_scale, widened
from cavity.models.base import AbstractModel
from cavity.numerics.compiled import compiled
from cavity.numerics.powers import frozen, is_exactly
from cavity.numerics.types import Array, Scalar

T = TypeVar("T")

# No tolerance is below this many rounding units.
ROUNDING = 100.0
# The residual, in deviations, at which the double loop and damped sweeps count as converged.
MATCHED = 1e-6
# The residual at which sites are near enough: to start from, and to learn by.
NEAR = 1e-2
# The steps of damped sweeps, where full ones lead astray.
SHORT = (0.3, 0.1)
# Following a fixed point to larger powers: the first step and the least one, as shares of the
# power asked for; what Newton's method is to reach, in deviations, and in how many steps.
FIRST_LENGTH, LEAST_LENGTH = 0.25, 1e-3
CLOSE, NEWTON_STEPS = 1e-9, 20


@dataclasses.dataclass(frozen=True)
class SiteReport:
    """How the sites came about.

    Attributes:
        sweeps: sweeps made, those of the double loop's inner maxima included (0 where every
            factor is exact).
        residual: largest change of a moment that a further sweep would make, in deviations.
        skipped: sites skipped in the last sweep.
        finished_by: the method that finished.
    """

    sweeps: int
    residual: float
    skipped: int
    finished_by: str


EXACT = SiteReport(0, 0.0, 0, "exact")


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
        lambda: empty_sites(lay_out(model, data, method, jnp.zeros(())))
    )
    if all(store is None for store in shapes):
        return None
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)


def settle(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: Scalar,
    sites: Sites | None = None,
    *,
    zero: Sites | None = None,
    quick: bool = False,
) -> tuple[Sites, SiteReport, bool]:
    """The sites at their fixed point, how they got there, and whether they did.

    Args:
        model: the model, its likelihood not Gaussian.
        data: prepared data.
        method: how sites are found.
        jitter: of the covariance that is factorised.
        sites: where to start; None for precision zero, which is also where a start that leads
            nowhere is left for.
        zero: sites of precision zero, where they are at hand.
        quick: whether to leave out the fallbacks that may take long.
    """
    zero = no_sites(model, data, method) if zero is None else zero
    assert zero is not None
    found, record = _swept(model, data, method, jitter, zero if sites is None else sites)
    used = int(record.sweeps)
    coupled = method.couples(model.likelihood)
    if not record.converged and (
        sites is not None or (isinstance(method, Laplace) and not coupled)
    ):
        start, more = _start(model, data, method, jitter, zero)
        other, again = _swept(model, data, method, jitter, start)
        used += more + int(again.sweeps)
        if not _worse(again, record):
            found, record = other, again
    report = SiteReport(used, float(record.residual), _count(record.skipped), _by(method))
    if record.converged:
        return found, report, True
    if not _defined(model, data, method, jitter, found):
        found = zero
    if coupled:
        return _damped(model, data, method, jitter, zero, found, report)
    if not (isinstance(method, PowerEP) and method.fallback) or data.rows.blocked:
        matched = _attainable(max(method.tolerance, MATCHED), data)
        return found, report, report.residual < matched and report.skipped == 0
    near = _solved(model, data, method, jitter, found)
    if float(near.gap) < _attainable(CLOSE, data):
        steps = used + int(near.steps)
        return near.sites, SiteReport(steps, float(near.gap), 0, "Newton's method"), True
    if quick:
        return found, report, False
    return _fallen_back(model, data, method, jitter, zero, found, report)


def _attainable(tolerance: float, data: Data) -> float:
    """A tolerance that the precision of the data allows."""
    return max(tolerance, ROUNDING * float(jnp.finfo(data.rows.y.dtype).eps))


def _fallen_back(
    model: AbstractModel,
    data: Data,
    method: PowerEP,
    jitter: Scalar,
    zero: Sites,
    found: Sites,
    report: SiteReport,
) -> tuple[Sites, SiteReport, bool]:
    """What converges where neither sweeps do nor Newton's method from where they end."""
    if is_exactly(data.power, 0.0) and data.rows.power is None:
        lower, record = _swept(model, data, method, jitter, zero, downhill=True)
        # rounding hides the last of the descent from the energy
        near = _solved(model, data, method, jitter, lower)
        again = near.sites
        name, steps = "line search", int(record.sweeps) + int(near.steps)
    else:
        again, steps, done = _followed(model, data, method, jitter, zero)
        name = "Newton's method"
        if not done:
            narrowed, more = _narrowed(model, data, method, jitter, zero)
            done, steps = narrowed is not None, steps + more
            again = again if narrowed is None else narrowed
        if not done:
            close = _attainable(CLOSE, data)
            lowest, more = least(model, data, method.program(), jitter, close)
            done, name, steps = lowest is not None, "free energy", steps + more
            again = again if lowest is None else lowest
        if not done:
            again, more = double_loop(model, data, method.program(), jitter, zero, again)
            name, steps = "double loop", steps + more
    matched = _attainable(max(method.tolerance, MATCHED), data)
    residual, skipped = _residual(model, data, method, jitter, again)
    done = float(residual) < matched and int(skipped) == 0
    better = report.skipped > 0 or float(residual) < report.residual
    if not done and not (better and _defined(model, data, method, jitter, again)):
        return found, report, False
    return again, SiteReport(report.sweeps + steps, float(residual), _count(skipped), name), done


def _damped(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: Scalar,
    zero: Sites,
    found: Sites,
    report: SiteReport,
) -> tuple[Sites, SiteReport, bool]:
    """Sweeps of fixed short steps until near, then the usual ones: for coupled classes.

    Their messages are not linear in the sites, which Newton's method and the double loop need.
    """
    if method.step is not None or not getattr(method, "fallback", True):
        return found, report, False
    matched = _attainable(max(method.tolerance, MATCHED), data)
    near, used = zero, report.sweeps
    for step in SHORT:
        slow = dataclasses.replace(method, step=step, tolerance=max(NEAR, method.tolerance))  # type: ignore[type-var]
        near, record = _swept(model, data, slow, jitter, near)
        used += int(record.sweeps)
        if not _defined(model, data, method, jitter, near):
            near = zero
            continue
        last, record = _swept(model, data, method, jitter, near)
        used += int(record.sweeps)
        residual = float(record.residual)
        if residual < matched and record.skipped == 0:
            return last, SiteReport(used, residual, 0, "damped sweeps"), True
        if residual < report.residual and _defined(model, data, method, jitter, last):
            found, report = last, SiteReport(used, residual, _count(record.skipped), _by(method))
    return found, dataclasses.replace(report, sweeps=used), False


def _worse(a: SweepRecord, b: SweepRecord) -> bool:
    """Whether sweeps ended further from convergence than others."""
    if bool(a.converged) or bool(b.converged):
        return not bool(a.converged)
    return float(a.residual) + float(a.skipped) > float(b.residual) + float(b.skipped)


def _start(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, zero: Sites
) -> tuple[Sites, int]:
    """Where to start anew, and the sweeps that took: for Laplace's method near the mode."""
    if not isinstance(method, Laplace) or method.couples(model.likelihood):
        return zero, 0
    found, record = _swept(model, data, ModeSearch(), jitter, zero)
    return found, int(record.sweeps)


def _by(method: AbstractMethod) -> str:
    """What sweeps of a method are called."""
    if isinstance(method, Laplace):
        return "Newton's method"
    if method.batch is None:
        return "parallel sweeps"
    return "sequential sweeps" if method.batch == 1 else "minibatch sweeps"


def _count(skipped: Array) -> int:
    return round(float(skipped)) if np.isfinite(float(skipped)) else 0


def _swept(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: Scalar,
    sites: Sites,
    *,
    downhill: bool = False,
) -> tuple[Sites, SweepRecord]:
    tolerance = jnp.asarray(_attainable(method.tolerance, data))
    return _sweeps(model, data, method, jitter, sites, tolerance, downhill=downhill)


@_program
def _sweeps(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: Scalar,
    sites: Sites,
    tolerance: Scalar,
    *,
    downhill: bool,
) -> tuple[Sites, SweepRecord]:
    graph = lay_out(model, data, method, jitter)
    if downhill:
        limits = {"tolerance": tolerance, "max_sweeps": method.max_sweeps}
        return descend(frozen(graph), sites, **limits)
    found, record = swept(graph, method, sites, tolerance)
    assert record is not None
    return found, record


def swept(
    graph: Graph,
    method: AbstractMethod,
    sites: Sites | None = None,
    tolerance: float | Scalar | None = None,
) -> tuple[Sites, SweepRecord | None]:
    """Sites after parallel sweeps, constant under differentiation; no record if all exact."""
    start = empty_sites(graph) if sites is None else sites
    if all(store is None for store in start):
        return start, None
    tolerance = method.tolerance if tolerance is None else tolerance
    limits = {"step": method.step, "tolerance": tolerance, "max_sweeps": method.max_sweeps}
    if method.batch is None:
        found, record = parallel(frozen(graph), start, **limits)
    else:
        found, record = in_batches(frozen(graph), start, batch=method.batch, **limits)
    return frozen(found), record


@_program
def _residual(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, sites: Sites
) -> tuple[Array, Array]:
    return sweep(lay_out(model, data, method, jitter), sites, 1.0)[1:]


def _defined(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, sites: Sites
) -> bool:
    """Whether the energy is, which it is not where a belief or a cavity is improper."""
    return bool(np.isfinite(float(_energy(model, data, method, jitter, sites))))


@_program
def _energy(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, sites: Sites
) -> Scalar:
    return energy(lay_out(model, data, method, jitter), sites)


def _followed(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, zero: Sites
) -> tuple[Sites, int, bool]:
    """The fixed point at a smaller power, at which sweeps converge, followed to the one asked for.

    Returns:
        Sites of the largest power that was reached, the sweeps and steps that took, and whether
        that is the power asked for.
    """
    share, sites, steps = _gentle(model, data, method, jitter, zero)
    if share == 0.0:
        return zero, steps, False
    length = FIRST_LENGTH
    while length > LEAST_LENGTH:
        reach = min(share + length, 1.0)
        found = _solved(model, _at_share(data, reach), method, jitter, sites)
        steps += int(found.steps)
        if float(found.gap) < _attainable(CLOSE, data):
            if reach == 1.0:
                return found.sites, steps, True
            share, sites, length = reach, found.sites, 2.0 * length
        else:
            length *= 0.5
    return sites, steps, False


def _narrowed(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, zero: Sites
) -> tuple[Sites | None, int]:
    """The fixed point at wider noise, followed to the noise as it is; None where that fails."""
    if not has_scale(model):
        return None, 0
    wide = widened(model, WIDEST)
    start, record = _swept(wide, data, method, jitter, zero)
    steps = int(record.sweeps)
    if not record.converged:
        return None, steps
    near, looks = Path(model, data, method.program(), jitter).ahead(start)
    for sites in near or ():
        found = _solved(model, data, method, jitter, sites)
        if float(found.gap) < _attainable(CLOSE, data):
            return found.sites, steps + looks
    return None, steps + looks


@_program
def _solved(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, sites: Sites
) -> Solution:
    graph = lay_out(model, data, method, jitter)
    return solve(graph, sites, tolerance=_attainable(CLOSE, data), max_steps=NEWTON_STEPS)


def _at_share(data: Data, share: float) -> Data:
    """The data at a share of their power."""
    dtype = data.rows.x.dtype
    lower = eqx.tree_at(lambda d: d.power, data, jnp.asarray(share * data.power, dtype))
    if data.rows.power is not None:
        lower = eqx.tree_at(lambda d: d.rows.power, lower, share * data.rows.power)
    return lower


def _gentle(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: Scalar, zero: Sites
) -> tuple[float, Sites, int]:
    """A share of the power at which sweeps converge, their sites, and the sweeps that took.

    The share is 0, and the sites have precision zero, where they converge at none.
    """
    steps = 0
    for share in (0.5, 0.25, 0.1):
        sites, record = _swept(model, _at_share(data, share), method, jitter, zero)
        steps += int(record.sweeps)
        if float(record.residual) < NEAR and float(record.skipped) == 0:
            return share, sites, steps
    return 0.0, zero, steps
