"""What `converged` promises, against residuals that numpy computes from the sites."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import cavity
from cavity.inference.energy import Graph, beliefs, empty_sites, energy, marginals, respond
from cavity.inference.graph.marginals import Marginal
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.site_update import update_sites
from cavity.inference.solvers.descent import Descent
from cavity.inference.solvers.driver import Limits
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.inference.solvers.newton import Solution, evaluate
from cavity.inference.solvers.settings import FixedPointSolver, SweepSettings
from cavity.inference.solvers.steps import at_fixed_point, residual_of, run_sweeps
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.numerics.quadrature import Tilted
from tests.equivalence.problem import SWEEPS, laid_out, sweep_once
from tests.inference.test_site_update import Broken
from tests.oracle import dense
from tests.solving import problem_of
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(12)
ROWS = 12
X = np.sort(RANDOM.uniform(-2.0, 2.0, ROWS))[:, None]
Y = np.sin(3.0 * X[:, 0]) + 0.6 * RANDOM.standard_normal(ROWS)
LABELS = (Y > 0.0).astype(float)
VARIANCE, LENGTHSCALE = 4.0, 0.8
KERNEL = cavity.kernels.RBF(VARIANCE, LENGTHSCALE)
K = dense.rbf(X, X, VARIANCE, LENGTHSCALE)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / np.sqrt(2.0 * np.pi)
POINTS = cavity.inducing.Points(np.linspace(-2.0, 2.0, 4)[:, None])
PROBIT = cavity.GP(KERNEL, cavity.likelihoods.Bernoulli())
NOISE = cavity.likelihoods.Gaussian(0.3)


def posed(power):
    data = prepare(X, LABELS, power=power)
    return problem_of(as_dtype(PROBIT, data), data, cavity.PowerEP())


def matching(m, v, power):
    """Shift and precision of the site that matches a row's tilted distribution, by quadrature."""
    shift, precision = np.zeros(ROWS), np.zeros(ROWS)
    for n, sign in enumerate(2.0 * LABELS - 1.0):
        f = m[n] + np.sqrt(v[n]) * NODES
        weight = WEIGHTS * special.ndtr(sign * f) ** power
        weight = weight / weight.sum()
        # derivatives of log p, averaged over the tilted distribution
        ratio = np.exp(-0.5 * f**2 - special.log_ndtr(sign * f)) / np.sqrt(2.0 * np.pi)
        slope = weight @ (sign * ratio)
        spread = weight @ (ratio**2) - slope**2
        curvature = weight @ (-sign * f * ratio - ratio**2) + power * spread
        left = 1.0 + power * curvature * v[n]
        precision[n] = -curvature / left
        shift[n] = precision[n] * m[n] + slope / left
    return shift, precision


def mismatch(sites, power):
    """How far the matching sites are from the sites, in deviations of the belief."""
    ((store,),) = sites
    nu, tau = (np.asarray(a)[:ROWS, 0] for a in (store.shift, store.precision))
    cov = K @ np.linalg.inv(np.eye(ROWS) + tau[:, None] * K)
    m, v = cov @ nu, np.diag(cov)
    left = 1.0 - power * tau * v
    assert np.all(left > 0.0)
    shift, precision = matching((m - power * v * nu) / left, v / left, power)
    return np.max([np.abs(shift - nu) * np.sqrt(v), np.abs(precision - tau) * v])


# ------------------------------------------------------------------------------ convergence

SCHEDULES = {
    "parallel": ({"step": 0.5}, False, 1.0, 10),
    "batches": ({"step": 0.5, "batch": 5}, False, 1.0, 10),
    "one batch": ({"step": 0.5, "batch": 100}, False, 1.0, 10),
    "line search": ({}, True, 0.0, 9),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_converged_is_at_a_fixed_point_and_nothing_less_is(schedule):
    """Too few sweeps come near, and near is not converged; nor do sweeps end there."""
    settings, downhill, power, few = SCHEDULES[schedule]
    problem = posed(power)
    for sweeps, converged in ((few, False), (300, True)):
        solver = FixedPointSolver(**settings, max_sweeps=sweeps)
        sites, record = run_sweeps(problem, solver, problem.empty_sites(), downhill=downhill)
        assert bool(record.converged) == converged
        gap = mismatch(sites, power)
        assert gap < 1e-7 if converged else gap > 1e-7
        assert record.residual < 1e-8 if converged else 1e-7 < record.residual < 1e-2


def test_fixed_points_are_accepted_at_small_residuals_alone():
    problem, solver = posed(1.0), FixedPointSolver(step=0.5, max_sweeps=10)
    sites, report = find_fixed_point(problem, solver)
    assert_close(report.residual, mismatch(sites, 1.0))
    assert 1e-6 < report.residual < 1e-2
    assert not report.converged
    for gap, there in ((5e-3, False), (1e-7, False), (1e-11, True)):
        solution = Solution(sites, jnp.asarray(gap), jnp.asarray(1))
        assert at_fixed_point(problem, solver, solution) == there


def test_sites_that_were_skipped_are_at_no_fixed_point():
    """Rows whose density is not a number keep their sites, and all others converge."""
    signs = 2.0 * LABELS - 1.0
    data = prepare(X, signs, power=1.0)
    model = as_dtype(cavity.GP(KERNEL, Broken(0.7)), data)
    problem = problem_of(model, data, cavity.PowerEP())
    _, report = find_fixed_point(problem, FixedPointSolver(step=0.7, max_sweeps=60))
    assert report.residual < 1e-8
    assert report.skipped == np.sum(signs > 0.0)
    assert not report.converged


def test_sweeps_that_fail_give_the_nearest_sites_that_they_met():
    """The four points of jylanki 2.4, where sweeps of a fixed step go in circles."""
    x, y = np.array([[0.0], [0.4], [0.8], [1.2]]), np.array([0.1, 0.3, 1.4, 0.2])
    kernel = cavity.kernels.RBF(1.0, 0.7) + cavity.kernels.White(1e-6)
    model = cavity.GP(kernel, cavity.likelihoods.StudentT(np.sqrt(0.02), 4.0))
    data = prepare(x, y, power=1.0)
    problem = problem_of(as_dtype(model, data), data, cavity.PowerEP())
    residuals = []
    for sweeps in range(5, 40, 10):
        solver = FixedPointSolver(step=0.8, max_sweeps=sweeps)
        sites, record = run_sweeps(problem, solver, problem.empty_sites())
        assert not record.converged
        residuals.append(float(residual_of(problem, sites)[0]))
        assert_close(record.residual, residuals[-1])
        last = dataclasses.replace(solver, sweeps=SweepSettings(last=True))
        sites, record = run_sweeps(problem, last, problem.empty_sites())
        assert_close(residual_of(problem, sites)[0], record.residual)
        assert record.residual >= residuals[-1]
    assert_close(residuals, np.minimum.accumulate(residuals))


def test_a_line_search_does_not_go_where_a_value_is_no_number():
    data = prepare(X, Y, power=0.0)
    graph = problem_of(as_dtype(cavity.GP(KERNEL, NOISE), data), data, SWEEPS).graph()

    def value_of(graph, sites):
        ((store,),) = sites
        return jnp.where(jnp.max(store.precision) > 1.0, jnp.nan, energy(graph, sites))

    run = eqx.filter_jit(lambda g, s: Descent(g, Limits(1e-8, 5), value_of=value_of).run(s))
    ((store,),), record = run(graph, empty_sites(graph))
    assert 0.0 < jnp.max(store.precision) <= 1.0
    assert not record.converged


# -------------------------------------------------------------------------------- residuals


@pytest.mark.parametrize("number", ["shift", "precision"])
def test_residuals_are_those_of_numpy(number):
    """Where only shifts, or only precisions, are wrong."""
    problem = posed(1.0)
    solver = FixedPointSolver(step=0.5, max_sweeps=300)
    ((store,),), _ = run_sweeps(problem, solver, problem.empty_sites())
    off = eqx.tree_at(lambda s: getattr(s, number), store, 0.9 * getattr(store, number))
    residual, skipped = residual_of(problem, ((off,),))
    assert float(residual) == pytest.approx(mismatch(((off,),), 1.0), rel=1e-6)
    assert residual > 0.01
    assert skipped == 0


def test_the_residual_is_that_of_all_latent_functions():
    """The first of two is the one that moves."""
    random = np.random.default_rng(0)
    mean, var = random.standard_normal((5, 1)), random.uniform(0.5, 2.0, (5, 1))
    zero, one = np.zeros((5, 1)), np.ones((5, 1))
    still = ScalarSites(*(jnp.asarray(zero) for _ in range(2)))
    seen = [Marginal(*(jnp.asarray(a) for a in (mean, var, zero, zero)))] * 2
    tilted = [Tilted(zero, jnp.asarray(slope), jnp.asarray(-0.1 * one)) for slope in (one, zero)]
    _, residual, _ = update_sites(
        (still, still),
        seen,
        [m.moments for m in seen],
        tilted,
        [jnp.asarray(one)] * 2,
        proper=jnp.asarray(one > 0.0),
        power=0.5,
        step=1.0,
    )
    left = 1.0 - 0.05 * var
    shift = 0.1 * mean / left + 1.0 / left
    assert_close(residual, np.max([np.abs(shift) * np.sqrt(var), 0.1 * var / left]))


def two_factors():
    """Half the rows each."""
    model = cavity.GP(KERNEL, NOISE, POINTS)
    first, second = (
        laid_out(model, X[rows], Y[rows], SWEEPS, power=0.7)[0]
        for rows in (slice(ROWS // 2), slice(ROWS // 2, None))
    )
    return Graph(first.variables, factors=(*first.factors, *second.factors))


def several_chunks():
    """Four rows at a time."""
    graph, _ = laid_out(cavity.GP(KERNEL, NOISE, POINTS), X, Y, SWEEPS, power=0.7)
    (f,) = graph.factors
    small = type(f)(f.edges, f.rows, 4, f.term, f.power, f.evaluation_point)
    return eqx.tree_at(lambda g: g.factors, graph, (small,))


PLACES = {two_factors: ((0, 2), (1, 2)), several_chunks: ((0, 0), (0, ROWS - 1))}


@pytest.mark.parametrize("case", PLACES)
def test_residuals_are_of_all_factors_and_chunks(case):
    """Wherever the one site is that is far from where it should be."""
    graph = case()
    sites, _, _ = sweep_once(graph, empty_sites(graph), 1.0)
    for _ in range(8):
        sites, residual, _ = sweep_once(graph, sites, 0.7)
    assert residual < 1e-2
    for factor, row in PLACES[case]:
        shift = sites[factor][0].shift
        off = eqx.tree_at(lambda s, i=factor: s[i][0].shift, sites, shift.at[row, 0].add(3.0))
        new, residual, _ = sweep_once(graph, off, 1.0)
        moments = eqx.filter_jit(lambda g, s: marginals(g, beliefs(g, s)))(graph, off)
        changes = [
            np.max(np.abs(after.shift - before.shift) * np.sqrt(var))
            for (before,), (after,), ((_, var),) in zip(off, new, moments, strict=True)
        ]
        assert_close(residual, max(changes))
        assert residual > 0.3


def test_an_improper_belief_is_infinitely_far_from_a_fixed_point():
    model = cavity.GP(KERNEL, cavity.likelihoods.StudentT(0.2, 4.0))
    graph, _ = laid_out(model, X, Y, power=0.5)
    ((store,),) = empty_sites(graph)
    ((presence,),) = (factor.site_presence for factor in graph.factors)
    sites = ((ScalarSites(store.shift, -50.0 * presence),),)
    assert sweep_once(graph, sites, 1.0)[1] == np.inf
    assert eqx.filter_jit(evaluate)(graph, sites).gap == np.inf


@pytest.mark.parametrize("points", [None, POINTS], ids=["full", "sparse"])
def test_responses_are_differences_of_marginals(points):
    """To first order, which is what Newton's method and its relatives take."""
    graph, _ = laid_out(cavity.GP(KERNEL, NOISE, points), X, Y, SWEEPS, power=0.7)
    ((store,),) = empty_sites(graph)
    random = np.random.default_rng(1)
    shift, precision = (random.standard_normal(store.shift.shape) for _ in range(2))
    sites = ((ScalarSites(jnp.asarray(shift), jnp.asarray(0.5 + precision**2)),),)
    change = ((ScalarSites(jnp.asarray(precision), jnp.asarray(shift)),),)

    @eqx.filter_jit
    def moments(graph, length):
        ((site,),), ((moved,),) = sites, change
        values = (site.shift + length * moved.shift, site.precision + length * moved.precision)
        return marginals(graph, beliefs(graph, ((ScalarSites(*values),),)))

    @eqx.filter_jit
    def predicted(graph):
        q = beliefs(graph, sites)
        return respond(graph, tuple(b.response() for b in q), marginals(graph, q), change)

    ((found,),) = predicted(graph)
    ((up,),), ((down,),) = moments(graph, jnp.asarray(1e-5)), moments(graph, jnp.asarray(-1e-5))
    for slope, above, below in zip(found, up, down, strict=True):
        assert_close(slope[:ROWS], ((above - below) / 2e-5)[:ROWS], "gradient")
