r"""Fixed points of Power EP as minima over the moments themselves.

In place of sites, the means and variances of all rows are what is sought. To moments belong one
Gaussian with these marginals, by its sites, and one tilted distribution per row, by its cavity;
the expectation-consistent free energy is a function of moments alone,

$$G(m, v) = A(m, v) + \tfrac1a \sum_n B_n(m_n, v_n) + \tfrac1{2a} \sum_n \log v_n,$$

with A and B the convex duals of the log normalisers of the Gaussian and of the tilted
distributions. Where its slope is zero, sites and cavities fit together. For densities that are
bounded and not one-sided, as those with heavy tails, it grows beyond all bounds wherever moments
go to theirs, so it has a least value, and no cavity is in the way of a descent: one that loses its
precision goes off to one side and comes back from the other (`inference/tilting.py`).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.local_terms import EvaluationPoint, PowerMeanTerm
from cavity.inference.energy import Graph, Sites
from cavity.inference.factors.site import SiteFactor
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.problem import Problem
from cavity.inference.solvers.steps import solved
from cavity.inference.solvers.tilted_inverse import Tilting, tilting
from cavity.inference.variables.function_values import FunctionValues
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array

# Steps at the most; what slopes must come down to, in nats per deviation.
STEPS, LEVEL = 200, 1e-10
# The radius of trust, in deviations of the convex parts: at first, the largest, the least.
RADIUS, WIDEST, NARROWEST = 1.0, 20.0, 1e-12
# The largest change of a log variance in one step; variances of the start, over the prior's, one
# after the other: one-sided densities leave no more than a part of them.
LEAP, STARTS = 3.0, (0.9, 0.3, 0.1, 0.03)
# Added to the prior covariance, over its mean variance: duplicated rows make it singular.
JITTER = 1e-10
# Rows, padding included, up to which it is tried: a look costs their cube, many times.
ROWS = 128
# How near moments must be to those asked for; below this share of the value, slopes decide.
NEAR, ROUNDING = 1e-6, 1e-9


class _Lost(RuntimeError):
    """Sites or cavities of these moments were not found."""


@compiled
def _tilted(
    problem: Problem,
    moments: tuple[Array, Array],
    start: tuple[Array, Array],
) -> Tilting:
    (factor,) = problem.graph().factors
    assert isinstance(factor, SiteFactor)
    return tilting(factor, *moments, *start)


@compiled
def _laid(problem: Problem) -> tuple[Array, Array, Array]:
    """The prior covariance, the presence of rows, and their powers."""
    graph = problem.graph()
    (variable,), (factor,) = graph.variables, graph.factors
    assert isinstance(variable, FunctionValues)
    assert isinstance(factor, SiteFactor)
    presence = factor.rows.site_presence
    power = jnp.broadcast_to(jnp.asarray(factor.row_power(factor.rows)), presence.shape)
    return variable.covariance, presence[:, 0], power[:, 0]


@dataclasses.dataclass(frozen=True)
class _Place:
    """Moments, and the free energy there."""

    mean: np.ndarray
    log_var: np.ndarray
    site: np.ndarray  # precisions of the Gaussian's sites
    push: np.ndarray
    precision: np.ndarray
    value: float
    slope: np.ndarray
    convex: np.ndarray  # the curvature of the convex parts
    curvature: np.ndarray

    @property
    def gap(self) -> float:
        """The largest slope, in nats per deviation."""
        count = len(self.mean)
        by_mean = np.abs(self.slope[:count]) * np.exp(0.5 * self.log_var)
        return float(max(np.max(by_mean), np.max(np.abs(self.slope[count:]))))


class _Energy:
    """The free energy of one model, a function of the moments of the rows that are there."""

    def __init__(self, problem: Problem):
        self.problem, self.looks = problem, 0
        covariance, presence, power = (np.asarray(a, np.float64) for a in _laid(self.problem))
        self.here = np.flatnonzero(presence > 0.0)
        self.padded, self.power = len(presence), power[self.here]
        self.prior = covariance[np.ix_(self.here, self.here)]
        lifted = self.prior + JITTER * np.mean(np.diag(self.prior)) * np.eye(len(self.here))
        inverse = np.linalg.inv(lifted)
        self.inverse = 0.5 * (inverse + inverse.T)

    def start(self) -> _Place:
        """The moments of the prior, with variances as large as they can be."""
        for share in STARTS:
            var = share * np.diag(self.prior)
            zero = np.zeros(len(var))
            try:
                return self.at(zero, np.log(var), (0.1 / var, zero, 1.0 / var))
            except (_Lost, np.linalg.LinAlgError):
                continue
        raise _Lost

    def at(self, mean: np.ndarray, log_var: np.ndarray, near: tuple) -> _Place:
        """The free energy at given moments; sites and cavities are sought from near ones."""
        self.looks += 1
        count, each, a = len(mean), np.arange(len(mean)), self.power
        var = np.exp(log_var)
        site, cov, volume = _gaussian(self.inverse, var, near[0])
        push, precision, tilted, (zz, zs, ss) = self.tilted(mean, var, near[1:])
        by_mean = self.inverse @ mean + push / a
        by_var = -0.5 * site - 0.5 * precision / a
        slope = np.concatenate([by_mean, var * by_var + 0.5 / a])
        determinant = zz * ss - zs**2
        convex = np.zeros((2 * count, 2 * count))
        convex[:count, :count] = self.inverse
        convex[count:, count:] = 0.5 * np.linalg.inv(cov**2) * var[:, None] * var
        convex[each, each] += ss / determinant / a
        convex[each, each + count] += 0.5 * zs / determinant * var / a
        convex[each + count, each] += 0.5 * zs / determinant * var / a
        convex[each + count, each + count] += 0.25 * zz / determinant * var**2 / a
        curvature = convex.copy()
        curvature[each, each] -= precision / a
        curvature[each + count, each + count] += var * by_var
        value = 0.5 * mean @ self.inverse @ mean + volume + np.sum((tilted + 0.5 * log_var) / a)
        if not (np.isfinite(value) and np.all(np.isfinite(curvature))):
            raise _Lost
        return _Place(mean, log_var, site, push, precision, value, slope, convex, curvature)

    def tilted(self, mean: np.ndarray, var: np.ndarray, near: tuple) -> tuple[Any, ...]:
        """Pushes, precisions, values and spreads of the tilted distributions."""

        def padded(values: np.ndarray, rest: float) -> Array:
            full = np.full((self.padded, 1), rest)
            full[self.here, 0] = values
            return jnp.asarray(full)

        moments = padded(mean, 0.0), padded(var, 1.0)
        found = _tilted(self.problem, moments, (padded(near[0], 0.0), padded(near[1], 1.0)))
        found = jax.tree.map(lambda x: np.asarray(x)[self.here, 0], found)
        if not np.all(found.miss < NEAR):
            raise _Lost
        return found.push, found.precision, found.value, found.spread

    def sites(self, place: _Place) -> Sites:
        """The sites that the cavities leave."""
        var = np.exp(place.log_var)
        precision = (1.0 / var - place.precision) / self.power
        shift = (place.mean / var - place.push - place.precision * place.mean) / self.power
        full = np.zeros((2, self.padded, 1))
        full[:, self.here, 0] = shift, precision
        return ((ScalarSites(jnp.asarray(full[0]), jnp.asarray(full[1])),),)


def _gaussian(
    inverse: np.ndarray, var: np.ndarray, near: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Precisions of sites under which the variances are these, the covariance, and the dual.

    They make a convex function least, by Newton's method in damped steps.
    """

    def at(site: np.ndarray) -> tuple[float, np.ndarray] | None:
        try:
            root = np.linalg.inv(np.linalg.cholesky(inverse + np.diag(site)))
        except np.linalg.LinAlgError:
            return None
        return float(np.sum(np.log(np.diag(root))) + 0.5 * site @ var), root.T @ root

    site = near
    now = at(site)
    if now is None:
        site = 1.0 / var
        now = at(site)
    for _ in range(100):
        if now is None:
            raise _Lost
        value, cov = now
        slope = 0.5 * (var - np.diag(cov))
        if np.max(np.abs(slope) / var) < 1e-12:
            break
        curvature, units = 0.5 * cov**2, np.sqrt(2.0) / np.diag(cov)
        scaled = curvature * units[:, None] * units + 1e-15 * np.eye(len(var))
        along = -units * np.linalg.solve(scaled, units * slope)
        gain = -slope @ along
        size = 1.0 if gain < 0.25 else 1.0 / (1.0 + np.sqrt(2.0 * gain))
        new = at(site + size * along)
        while size > 1e-10 and not (
            new is not None and new[0] <= value - 1e-4 * size * gain + 1e-12 * (1.0 + abs(value))
        ):
            size *= 0.5
            new = at(site + size * along)
        if size <= 1e-10 or gain < 0.0:
            break
        site, now = site + size * along, new
    if now is None or np.max(np.abs(np.diag(now[1]) - var) / var) > NEAR:
        raise _Lost
    return site, now[1], -now[0]


def _step(slope: np.ndarray, curvature: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """The step within a radius that a quadratic falls most by, and what it changes by."""
    values, axes = np.linalg.eigh(0.5 * (curvature + curvature.T))
    along = axes.T @ slope

    def step(shift: float) -> np.ndarray:
        return -along / (values + shift)

    low = max(0.0, -float(values[0])) + 1e-12
    best = step(0.0 if values[0] > 1e-10 else low)
    if values[0] > 1e-10 and np.linalg.norm(best) <= radius:
        pass
    elif np.linalg.norm(step(low)) < radius:
        rest = np.sqrt(max(radius**2 - best[1:] @ best[1:], 0.0))
        best[0] = np.copysign(rest, best[0])
    else:
        high = low + float(np.linalg.norm(along)) / radius
        for _ in range(100):
            middle = 0.5 * (low + high)
            if np.linalg.norm(step(middle)) > radius:
                low = middle
            else:
                high = middle
        best = step(high)
    return axes @ best, float(along @ best + 0.5 * best @ (values * best))


def _descended(energy: _Energy, here: _Place) -> _Place:
    """Where a descent by Newton's method within a radius of trust ends."""
    radius, count = RADIUS, len(here.mean)
    while energy.looks < STEPS and here.gap > LEVEL and radius > NARROWEST:
        scales = 1.0 / np.sqrt(np.diag(here.convex))
        scaled = here.convex * scales[:, None] * scales + 1e-10 * np.eye(2 * count)
        try:
            lift = scales[:, None] * np.linalg.inv(np.linalg.cholesky(scaled)).T
        except np.linalg.LinAlgError:
            break
        slope = lift.T @ here.slope
        step, expected = _step(slope, lift.T @ here.curvature @ lift, radius)
        change, length = lift @ step, float(np.linalg.norm(step))
        new, share = None, -1.0
        if np.max(np.abs(change[count:])) < LEAP:
            new = _tried(energy, here, change)
        if new is not None:
            share = (new.value - here.value) / min(expected, -1e-300)
            if -expected < ROUNDING * max(1.0, abs(here.value)):
                share = 1.0 if np.linalg.norm(lift.T @ new.slope) < np.linalg.norm(slope) else -1.0
        if new is None or not share > 1e-3:
            radius = 0.3 * min(radius, length)
            continue
        here = new
        if share > 0.7:
            radius = min(max(radius, 2.0 * length), WIDEST)
        elif share < 0.25:
            radius *= 0.5
    return here


def _tried(energy: _Energy, here: _Place, change: np.ndarray) -> _Place | None:
    """The free energy a step on; None where it is not found."""
    count, near = len(here.mean), (here.site, here.push, here.precision)
    try:
        moved = here.mean + change[:count], here.log_var + change[count:]
        return energy.at(*moved, near)
    except (_Lost, np.linalg.LinAlgError):
        return None


def _applies(graph: Graph) -> bool:
    """Whether there is one function at the data, seen through power means of positive power."""
    if len(graph.variables) != 1 or len(graph.factors) != 1:
        return False
    (variable,), (factor,) = graph.variables, graph.factors
    return (
        isinstance(variable, FunctionValues)
        and variable.covariance.shape[0] <= ROWS
        and isinstance(factor, SiteFactor)
        and not factor.rows.blocked
        and factor.rows.y.shape[1] == 1
        and factor.rows.y.dtype == np.float64
        and isinstance(factor.term, PowerMeanTerm)
        and factor.evaluation_point is EvaluationPoint.CAVITY
    )


def least(problem: Problem, tolerance: float) -> tuple[Sites | None, int]:
    """Sites where the free energy of moments has a minimum, and looks at it and steps after it.

    The descent begins at the moments of the prior. It ends as near to a fixed point as rounding
    lets moments be; Newton's method in the sites goes on from there.

    Args:
        problem: the problem.
        tolerance: on the distance of sites from those that they should be, in deviations.

    Returns:
        The sites, or None: where the descent fails, and where the model is not a full Gaussian
        process with one output, in double precision and at positive powers.
    """
    if not _applies(jax.eval_shape(lambda: problem.graph())):
        return None, 0
    looks = 0
    try:
        energy = _Energy(problem)
        if np.any(energy.power <= 0.0):
            return None, 0
        start = energy.start()
        looks = energy.looks
        sites = energy.sites(_descended(energy, start))
    except (_Lost, np.linalg.LinAlgError):
        return None, looks
    found = solved(problem, sites)
    return found.sites if found.gap < tolerance else None, energy.looks + int(found.steps)
