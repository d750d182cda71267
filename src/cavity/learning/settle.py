"""Bringing sites to their fixed point: sweeps first, the double loop where they fail."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cavity.inference.double_loop import Inner, coordinates, inner_maximum
from cavity.inference.energy import Graph, Held, Sites, beliefs, empty_sites, marginals
from cavity.inference.methods import PowerEP
from cavity.inference.sweep import SweepRecord, parallel, sweep
from cavity.learning.data import Data
from cavity.models.base import AbstractModel
from cavity.numerics.powers import frozen
from cavity.numerics.types import Array, Scalar

# The double loop ends where no slope exceeds this many nats per deviation.
LEVEL = 1e-9
# What it counts as converged: the residual of the sweeps, in deviations.
MATCHED = 1e-6
# What inner maxima are worth, in nats, and the value given to places without one.
TIGHT, NOWHERE = 1e-13, 1e100


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


def lay_out(model: AbstractModel, data: Data, method: PowerEP, jitter: Scalar) -> Graph:
    """The model's graph on prepared data."""
    return model.graph(data.rows, power=data.power, method=method, jitter=jitter, chunk=data.chunk)


def no_sites(model: AbstractModel, data: Data, method: PowerEP) -> Sites | None:
    """Sites of precision zero; None where every factor is exact."""
    shapes = eqx.filter_eval_shape(
        lambda: empty_sites(lay_out(model, data, method, jnp.zeros(())))
    )
    if all(store is None for store in shapes):
        return None
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)


def settle(
    model: AbstractModel, data: Data, method: PowerEP, jitter: Scalar, sites: Sites | None = None
) -> tuple[Sites, SiteReport, bool]:
    """The sites at their fixed point, how they got there, and whether they did.

    Args:
        model: the model, its likelihood not Gaussian.
        data: prepared data.
        method: how sites are found.
        jitter: of the covariance that is factorised.
        sites: where to start; None for precision zero, which is also where a start that leads
            nowhere is left for.
    """
    zero = no_sites(model, data, method)
    assert zero is not None
    found, record = _swept(model, data, method, jitter, zero if sites is None else sites)
    if sites is not None and not record.converged:
        found, record = _swept(model, data, method, jitter, zero)
    report, done = _report(record), bool(record.converged)
    if done or not method.fallback:
        return found, report, done
    again, steps = _double_loop(model, data, method, jitter, zero)
    residual, skipped = _residual(model, data, method, jitter, again)
    if not float(residual) < min(report.residual, np.inf):
        return found, report, False
    done = float(residual) < max(method.tolerance, MATCHED) and int(skipped) == 0
    count = report.sweeps + steps
    return again, SiteReport(count, float(residual), int(skipped), "double loop"), done


def _report(record: SweepRecord) -> SiteReport:
    skipped = float(record.skipped)
    return SiteReport(
        int(record.sweeps),
        float(record.residual),
        round(skipped) if np.isfinite(skipped) else 0,
        "parallel sweeps",
    )


@eqx.filter_jit
def _swept(
    model: AbstractModel, data: Data, method: PowerEP, jitter: Scalar, sites: Sites
) -> tuple[Sites, SweepRecord]:
    graph = frozen(lay_out(model, data, method, jitter))
    return parallel(
        graph, sites, step=method.step, tolerance=method.tolerance, max_sweeps=method.max_sweeps
    )


@eqx.filter_jit
def _residual(
    model: AbstractModel, data: Data, method: PowerEP, jitter: Scalar, sites: Sites
) -> tuple[Array, Array]:
    return sweep(lay_out(model, data, method, jitter), sites, 1.0)[1:]


@eqx.filter_jit
def _seen(
    model: AbstractModel, data: Data, method: PowerEP, jitter: Scalar, sites: Sites
) -> tuple[Held, Array]:
    graph = lay_out(model, data, method, jitter)
    held = marginals(graph, beliefs(graph, sites))
    return held, coordinates(held)[0]


@eqx.filter_jit
def _inner(
    model: AbstractModel,
    data: Data,
    method: PowerEP,
    jitter: Scalar,
    sites: Sites,
    held: Held,
    place: Array,
) -> Inner:
    graph = frozen(lay_out(model, data, method, jitter))
    return inner_maximum(graph, sites, coordinates(held)[1](place), TIGHT)


def _double_loop(
    model: AbstractModel, data: Data, method: PowerEP, jitter: Scalar, zero: Sites
) -> tuple[Sites, int]:
    """The sites where the outer problem ends, and the inner steps that it took."""
    from scipy import optimize

    held, start = _seen(model, data, method, jitter, zero)
    units = _units(held, start)
    origin = np.asarray(start, np.float64)
    best = {"sites": zero, "value": np.inf, "steps": 0}

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        place = jnp.asarray(origin + units * x, start.dtype)
        for sites in (best["sites"], zero):
            inner = _inner(model, data, method, jitter, sites, held, place)
            best["steps"] += int(inner.steps)
            value = float(inner.value)
            slope = np.asarray(inner.slope, np.float64) * units
            good = np.isfinite(value) and np.all(np.isfinite(slope)) and float(inner.gain) < 1e-6
            if good:
                break
        if not good:
            return NOWHERE, np.zeros_like(x)
        if value < best["value"]:
            best.update(sites=inner.sites, value=value)
        return value, slope

    optimize.minimize(
        objective,
        np.zeros(origin.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": method.max_sweeps, "maxcor": 20, "ftol": 0.0, "gtol": LEVEL},
    )
    return best["sites"], int(best["steps"])


def _units(held: Held, start: Array) -> np.ndarray:
    """Means move in units of deviations, log variances by themselves."""
    unit: Any = jax.tree.map(
        lambda mv: (jnp.sqrt(mv[1]), jnp.ones_like(mv[1])),
        held,
        is_leaf=lambda x: isinstance(x, tuple) and isinstance(x[0], jax.Array),
    )
    return np.asarray(ravel_pytree(unit)[0], np.float64)
