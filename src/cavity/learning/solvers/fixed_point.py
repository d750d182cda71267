"""Bringing sites to their fixed point: sweeps first, and what converges where they fail."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.methods import AbstractMethod, Laplace, ModeSearch, PowerEP
from cavity.inference.energy import Sites
from cavity.inference.solvers.parallel import SweepRecord
from cavity.learning.data.arrays import Data
from cavity.learning.solvers.double_loop import double_loop
from cavity.learning.solvers.moment_descent import least
from cavity.learning.solvers.noise_continuation import (
    WIDEST,
    NoiseContinuation,
    has_scale,
    widened,
)
from cavity.learning.solvers.steps import (
    CLOSE,
    MATCHED,
    attainable,
    defined,
    no_sites,
    residual_of,
    run_sweeps,
    solved,
)
from cavity.models.base import AbstractModel
from cavity.numerics.power_limits import is_exactly
from cavity.numerics.types import Array, Scalar

# The residual at which sites are near enough: to start from, and to learn by.
NEAR = 1e-2
# The longest step of Power EP of coupled classes from the sites of nearby parameters, from where
# full steps, extrapolated, may run into a cycle.
GENTLE = 0.5
# The steps of damped sweeps, where full ones lead astray.
SHORT = (0.3, 0.1)
# Following a fixed point to larger powers: the first step and the least one, as shares of the
# power asked for.
FIRST_LENGTH, LEAST_LENGTH = 0.25, 1e-3


@dataclasses.dataclass(frozen=True)
class ConvergenceReport:
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


EXACT = ConvergenceReport(0, 0.0, 0, "exact")


def find_fixed_point(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: Scalar,
    sites: Sites | None = None,
    *,
    zero: Sites | None = None,
    quick: bool = False,
) -> tuple[Sites, ConvergenceReport, bool]:
    """The sites at their fixed point, how they got there, and whether they did.

    Args:
        model: the model, its likelihood not Gaussian.
        data: prepared data.
        method: how sites are found.
        jitter: of the covariance that is factorised.
        sites: where to start; None for precision zero, which is also where a start that leads
            nowhere is left for. Power EP of coupled classes makes half steps at most from there.
        zero: sites of precision zero, where they are at hand.
        quick: whether to leave out the fallbacks that may take long.
    """
    zero = no_sites(model, data, method) if zero is None else zero
    assert zero is not None
    coupled = method.couples(model.likelihood)
    first = zero if sites is None else sites
    # Newton's steps to a mode are whole
    gentle = coupled and first is not zero and not isinstance(method, Laplace)
    longest = GENTLE if gentle else 1.0
    found, record = run_sweeps(model, data, method, jitter, first, longest=longest)
    used = int(record.sweeps)
    if not record.converged and (
        sites is not None or (isinstance(method, Laplace) and not coupled)
    ):
        start, more = _start(model, data, method, jitter, zero)
        other, again = run_sweeps(model, data, method, jitter, start)
        used += more + int(again.sweeps)
        if not _worse(again, record):
            found, record = other, again
    report = ConvergenceReport(used, float(record.residual), _count(record.skipped), _by(method))
    if record.converged:
        return found, report, True
    if not defined(model, data, method, jitter, found):
        found = zero
    if coupled:
        return _damped(model, data, method, jitter, zero, found, report)
    if not (isinstance(method, PowerEP) and method.fallback) or data.rows.blocked:
        matched = attainable(max(method.tolerance, MATCHED), data)
        return found, report, report.residual < matched and report.skipped == 0
    near = solved(model, data, method, jitter, found)
    if float(near.gap) < attainable(CLOSE, data):
        steps = used + int(near.steps)
        return near.sites, ConvergenceReport(steps, float(near.gap), 0, "Newton's method"), True
    if quick:
        return found, report, False
    return _fallen_back(model, data, method, jitter, zero, found, report)


def _fallen_back(
    model: AbstractModel,
    data: Data,
    method: PowerEP,
    jitter: Scalar,
    zero: Sites,
    found: Sites,
    report: ConvergenceReport,
) -> tuple[Sites, ConvergenceReport, bool]:
    """What converges where neither sweeps do nor Newton's method from where they end."""
    if is_exactly(data.power, 0.0) and data.rows.power is None:
        lower, record = run_sweeps(model, data, method, jitter, zero, downhill=True)
        # rounding hides the last of the descent from the energy
        near = solved(model, data, method, jitter, lower)
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
            close = attainable(CLOSE, data)
            lowest, more = least(model, data, method.program(), jitter, close)
            done, name, steps = lowest is not None, "free energy", steps + more
            again = again if lowest is None else lowest
        if not done:
            again, more = double_loop(model, data, method.program(), jitter, zero, again)
            name, steps = "double loop", steps + more
    matched = attainable(max(method.tolerance, MATCHED), data)
    residual, skipped = residual_of(model, data, method, jitter, again)
    done = float(residual) < matched and int(skipped) == 0
    better = report.skipped > 0 or float(residual) < report.residual
    if not done and not (better and defined(model, data, method, jitter, again)):
        return found, report, False
    return (
        again,
        ConvergenceReport(report.sweeps + steps, float(residual), _count(skipped), name),
        done,
    )


def _damped(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: Scalar,
    zero: Sites,
    found: Sites,
    report: ConvergenceReport,
) -> tuple[Sites, ConvergenceReport, bool]:
    """Sweeps of fixed short steps until near, then the usual ones: for coupled classes.

    Their messages are not linear in the sites, which Newton's method and the double loop need.
    """
    if method.step is not None or not getattr(method, "fallback", True):
        return found, report, False
    matched = attainable(max(method.tolerance, MATCHED), data)
    near, used = zero, report.sweeps
    for step in SHORT:
        slow = dataclasses.replace(method, step=step, tolerance=max(NEAR, method.tolerance))  # type: ignore[type-var]
        near, record = run_sweeps(model, data, slow, jitter, near)
        used += int(record.sweeps)
        if not defined(model, data, method, jitter, near):
            near = zero
            continue
        last, record = run_sweeps(model, data, method, jitter, near)
        used += int(record.sweeps)
        residual = float(record.residual)
        if residual < matched and record.skipped == 0:
            return last, ConvergenceReport(used, residual, 0, "damped sweeps"), True
        if residual < report.residual and defined(model, data, method, jitter, last):
            found, report = (
                last,
                ConvergenceReport(used, residual, _count(record.skipped), _by(method)),
            )
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
    found, record = run_sweeps(model, data, ModeSearch(), jitter, zero, downhill=True)
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
        found = solved(model, _at_share(data, reach), method, jitter, sites)
        steps += int(found.steps)
        if float(found.gap) < attainable(CLOSE, data):
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
    start, record = run_sweeps(wide, data, method, jitter, zero)
    steps = int(record.sweeps)
    if not record.converged:
        return None, steps
    near, looks = NoiseContinuation(model, data, method.program(), jitter).ahead(start)
    for sites in near or ():
        found = solved(model, data, method, jitter, sites)
        if float(found.gap) < attainable(CLOSE, data):
            return found.sites, steps + looks
    return None, steps + looks


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
        sites, record = run_sweeps(model, _at_share(data, share), method, jitter, zero)
        steps += int(record.sweeps)
        if float(record.residual) < NEAR and float(record.skipped) == 0:
            return share, sites, steps
    return 0.0, zero, steps
