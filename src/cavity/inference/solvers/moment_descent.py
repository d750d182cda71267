r"""Fixed points of Power EP as minima of a free energy of the moments.

In place of sites, the means and variances of all rows are what is sought. To moments belong the
Gaussian with these marginals, by its sites, and one tilted distribution per row, by its cavity;
the expectation-consistent free energy is a function of moments alone,

$$G(m, v) = A(m, v) + \tfrac1a \sum_n w_n \big[ B_n(m_n, v_n) + \tfrac12 \log v_n \big],$$

with w the weights of rows, and A and B the convex duals of the log normalisers of the Gaussian and
of the tilted distributions. Where its slope is zero, sites and cavities fit together. For
densities that are bounded and not one-sided, as those with heavy tails, it grows beyond all bounds
wherever moments go to theirs, so it has a least value. A cavity that loses its precision does not
end the descent: its mean goes to infinity on one side and comes back from the other
(`tilted_inverse.py`).

References:
    Opper and Winther (2005), Expectation consistent approximate inference.
"""

import dataclasses
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.problem import Problem
from cavity.inference.solvers.settings import FixedPointSolver, MomentSettings, TiltedSettings
from cavity.inference.solvers.steps import at_fixed_point, newton_from
from cavity.inference.solvers.tilted_inverse import TiltedInverse, invert_tilted
from cavity.inference.variables.function_values import FunctionValues
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array


class NoSolution(RuntimeError):
    """Sites or cavities of these moments were not found."""


def minimise_free_energy(problem: Problem, solver: FixedPointSolver) -> tuple[Sites | None, int]:
    """Sites where the free energy of moments has a minimum, and the evaluations and steps made.

    The descent begins at the moments of the prior. It ends as near to a fixed point as rounding
    lets moments be; Newton's method in the sites goes on from there.

    Args:
        problem: the problem.
        solver: settings of the descent and of Newton's method in the sites.

    Returns:
        The sites, or None: where the descent fails, and where the model is not a full Gaussian
        process with one output, in double precision and at positive powers.
    """
    if jax.eval_shape(lambda: _prior(problem, solver.moments.max_rows)) is None:
        return None, 0
    evaluations = 0
    try:
        energy = FreeEnergy(problem, solver.moments)
        if np.any(energy.power <= 0.0):
            return None, 0
        start = energy.start()
        evaluations = energy.evaluations
        sites = energy.sites(descend(energy, start))
    except (NoSolution, np.linalg.LinAlgError):
        return None, evaluations
    solution = newton_from(problem, solver, sites)
    steps = energy.evaluations + int(solution.steps)
    return solution.sites if at_fixed_point(problem, solver, solution) else None, steps


class _Prior(NamedTuple):
    """The prior covariance, the weights of rows, 0 for absent ones, and their powers."""

    covariance: Array
    presence: Array
    power: Array


def _prior(problem: Problem, max_rows: int) -> _Prior | None:
    """The prior of one function at the data; None where rows are not powers of its density."""
    graph = problem.graph()
    if len(graph.variables) != 1 or len(graph.factors) != 1 or not graph.variables[0].holds_values:
        return None
    (factor,), variable = graph.factors, cast(FunctionValues, graph.variables[0])
    density, y = factor.powered_density(), factor.rows.y
    if density is None or y.shape[1] != 1 or y.dtype != np.float64:
        return None
    if not variable.covariance.shape[0] == y.shape[0] <= max_rows:
        return None
    presence = factor.rows.site_presence
    power = jnp.broadcast_to(jnp.asarray(density.power), presence.shape)
    return _Prior(variable.covariance, presence[:, 0], power[:, 0])


@compiled
def _prior_covariance(problem: Problem, *, max_rows: int) -> _Prior | None:
    return _prior(problem, max_rows)


@compiled
def _invert_tilted(
    problem: Problem,
    moments: tuple[Array, Array],
    start: tuple[Array, Array],
    *,
    settings: TiltedSettings,
) -> TiltedInverse:
    (factor,) = problem.graph().factors
    density = factor.powered_density()
    assert density is not None
    return invert_tilted(density, moments, start, settings)


class Cavities(NamedTuple):
    """Shifts, about the means asked for, and precisions of the cavities."""

    shift: np.ndarray
    precision: np.ndarray


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The free energy at moments.

    Attributes:
        mean: the means.
        log_var: the logs of the variances.
        site_precision: precisions of the Gaussian's sites.
        cavities: the cavities of the tilted distributions.
        value: the free energy.
        slope: its derivatives in means and log variances.
        convex: the second derivatives of its convex terms.
        curvature: its second derivatives.
    """

    mean: np.ndarray
    log_var: np.ndarray
    site_precision: np.ndarray
    cavities: Cavities
    value: float
    slope: np.ndarray
    convex: np.ndarray
    curvature: np.ndarray

    @property
    def gap(self) -> float:
        """The largest slope, in nats per deviation."""
        count = len(self.mean)
        by_mean = np.abs(self.slope[:count]) * np.exp(0.5 * self.log_var)
        return float(max(np.max(by_mean), np.max(np.abs(self.slope[count:]))))


class FreeEnergy:
    """The free energy of one problem, a function of the moments of the rows that are present."""

    def __init__(self, problem: Problem, settings: MomentSettings = MomentSettings()):
        self.problem, self.settings, self.evaluations = problem, settings, 0
        prior = _prior_covariance(problem, max_rows=settings.max_rows)
        if prior is None:
            raise NoSolution
        covariance, presence, power = (np.asarray(a, np.float64) for a in prior)
        self.present = np.flatnonzero(presence > 0.0)
        self.padded_size, self.power = len(presence), power[self.present]
        self.power_per_weight = self.power / presence[self.present]
        self.prior = covariance[np.ix_(self.present, self.present)]
        jitter = settings.jitter * np.mean(np.diag(self.prior))
        inverse = np.linalg.inv(self.prior + jitter * np.eye(len(self.present)))
        self.precision = 0.5 * (inverse + inverse.T)

    def start(self) -> Evaluation:
        """The moments of the prior, with variances as large as they can be."""
        for share in self.settings.starts:
            var = share * np.diag(self.prior)
            zero = np.zeros(len(var))
            try:
                return self.at(zero, np.log(var), 0.1 / var, Cavities(zero, 1.0 / var))
            except (NoSolution, np.linalg.LinAlgError):
                continue
        raise NoSolution

    def at(
        self, mean: np.ndarray, log_var: np.ndarray, site_precision: np.ndarray, start: Cavities
    ) -> Evaluation:
        """The free energy at given moments; sites and cavities are sought from near ones."""
        self.evaluations += 1
        count, rows, a = len(mean), np.arange(len(mean)), self.power_per_weight
        var = np.exp(log_var)
        site_precision, cov, dual = match_variances(self.precision, var, site_precision)
        cavities, tilted, (zz, zs, ss) = self.tilted(mean, var, start)
        by_mean = self.precision @ mean + cavities.shift / a
        by_var = -0.5 * site_precision - 0.5 * cavities.precision / a
        slope = np.concatenate([by_mean, var * by_var + 0.5 / a])
        determinant = zz * ss - zs**2
        convex = np.zeros((2 * count, 2 * count))
        convex[:count, :count] = self.precision
        convex[count:, count:] = 0.5 * np.linalg.inv(cov**2) * var[:, None] * var
        convex[rows, rows] += ss / determinant / a
        convex[rows, rows + count] += 0.5 * zs / determinant * var / a
        convex[rows + count, rows] += 0.5 * zs / determinant * var / a
        convex[rows + count, rows + count] += 0.25 * zz / determinant * var**2 / a
        curvature = convex.copy()
        curvature[rows, rows] -= cavities.precision / a
        curvature[rows + count, rows + count] += var * by_var
        quadratic = 0.5 * mean @ self.precision @ mean
        value = float(quadratic + dual + np.sum((tilted + 0.5 * log_var) / a))
        if not (np.isfinite(value) and np.all(np.isfinite(curvature))):
            raise NoSolution
        return Evaluation(mean, log_var, site_precision, cavities, value, slope, convex, curvature)

    def tilted(
        self, mean: np.ndarray, var: np.ndarray, start: Cavities
    ) -> tuple[Cavities, np.ndarray, tuple[np.ndarray, ...]]:
        """Cavities, values and spreads of the tilted distributions with these moments."""

        def padded(values: np.ndarray, filling: float) -> Array:
            full = np.full((self.padded_size, 1), filling)
            full[self.present, 0] = values
            return jnp.asarray(full)

        moments = padded(mean, 0.0), padded(var, 1.0)
        near = padded(start.shift, 0.0), padded(start.precision, 1.0)
        inverse = _invert_tilted(self.problem, moments, near, settings=self.settings.tilted)
        inverse = jax.tree.map(lambda x: np.asarray(x)[self.present, 0], inverse)
        if not np.all(inverse.mismatch < self.settings.accepted):
            raise NoSolution
        return Cavities(inverse.shift, inverse.precision), inverse.value, inverse.spread

    def sites(self, at: Evaluation) -> Sites:
        """The sites that the cavities leave."""
        var, cavities = np.exp(at.log_var), at.cavities
        precision = (1.0 / var - cavities.precision) / self.power
        shift = (at.mean / var - cavities.shift - cavities.precision * at.mean) / self.power
        full = np.zeros((2, self.padded_size, 1))
        full[:, self.present, 0] = shift, precision
        return ((ScalarSites(jnp.asarray(full[0]), jnp.asarray(full[1])),),)


def match_variances(
    prior_precision: np.ndarray, var: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Precisions of sites under which the variances are these, the covariance, and the dual.

    They make a convex function least, by Newton's method in damped steps.
    """

    def at(site: np.ndarray) -> tuple[float, np.ndarray] | None:
        try:
            root = np.linalg.inv(np.linalg.cholesky(prior_precision + np.diag(site)))
        except np.linalg.LinAlgError:
            return None
        return float(np.sum(np.log(np.diag(root))) + 0.5 * site @ var), root.T @ root

    site = start
    now = at(site)
    if now is None:
        site = 1.0 / var
        now = at(site)
    for _ in range(100):
        if now is None:
            raise NoSolution
        value, cov = now
        slope = 0.5 * (var - np.diag(cov))
        if np.max(np.abs(slope) / var) < 1e-12:
            break
        curvature, units = 0.5 * cov**2, np.sqrt(2.0) / np.diag(cov)
        scaled = curvature * units[:, None] * units + 1e-15 * np.eye(len(var))
        direction = -units * np.linalg.solve(scaled, units * slope)
        gain = -slope @ direction
        size = 1.0 if gain < 0.25 else 1.0 / (1.0 + np.sqrt(2.0 * gain))
        new = at(site + size * direction)
        while size > 1e-10 and not (
            new is not None and new[0] <= value - 1e-4 * size * gain + 1e-12 * (1.0 + abs(value))
        ):
            size *= 0.5
            new = at(site + size * direction)
        if size <= 1e-10 or gain < 0.0:
            break
        site, now = site + size * direction, new
    if now is None or np.max(np.abs(np.diag(now[1]) - var) / var) > 1e-6:
        raise NoSolution
    return site, now[1], -now[0]


def trust_region_step(
    slope: np.ndarray, curvature: np.ndarray, radius: float
) -> tuple[np.ndarray, float]:
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
        remainder = np.sqrt(max(radius**2 - best[1:] @ best[1:], 0.0))
        best[0] = np.copysign(remainder, best[0])
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


def descend(energy: FreeEnergy, start: Evaluation) -> Evaluation:
    """Minimise the energy by Newton's method within a trust region."""
    settings, at, count = energy.settings, start, len(start.mean)
    radius = settings.radius
    while (
        energy.evaluations < settings.max_evaluations
        and at.gap > settings.tolerance
        and radius > settings.least_radius
    ):
        scales = 1.0 / np.sqrt(np.diag(at.convex))
        scaled = at.convex * scales[:, None] * scales + 1e-10 * np.eye(2 * count)
        try:
            # the trust region is a ball in the metric of the convex terms
            root = scales[:, None] * np.linalg.inv(np.linalg.cholesky(scaled)).T
        except np.linalg.LinAlgError:
            break
        slope = root.T @ at.slope
        step, expected = trust_region_step(slope, root.T @ at.curvature @ root, radius)
        change, length = root @ step, float(np.linalg.norm(step))
        new, ratio = None, -1.0
        if np.max(np.abs(change[count:])) < settings.longest_log_var:
            new = _evaluate_step(energy, at, change)
        if new is not None:
            ratio = (new.value - at.value) / min(expected, -1e-300)
            if -expected < settings.rounding * max(1.0, abs(at.value)):
                flatter = np.linalg.norm(root.T @ new.slope) < np.linalg.norm(slope)
                ratio = 1.0 if flatter else -1.0
        if new is None or not ratio > 1e-3:
            radius = 0.3 * min(radius, length)
            continue
        at = new
        if ratio > 0.7:
            radius = min(max(radius, 2.0 * length), settings.largest_radius)
        elif ratio < 0.25:
            radius *= 0.5
    return at


def _evaluate_step(energy: FreeEnergy, at: Evaluation, change: np.ndarray) -> Evaluation | None:
    """The free energy a step on; None where it is not found."""
    count = len(at.mean)
    try:
        moments = at.mean + change[:count], at.log_var + change[count:]
        return energy.at(*moments, at.site_precision, at.cavities)
    except (NoSolution, np.linalg.LinAlgError):
        return None
