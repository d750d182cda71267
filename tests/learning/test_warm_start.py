"""Private sites while learning: where they begin, and how accurately they are found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity import GP, likelihoods
from cavity.inference.energy import empty_sites
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.solvers.driver import Limits
from cavity.inference.solvers.parallel import Parallel, sweep
from cavity.kernels import RBF
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.methods.methods import Laplace, PowerEP
from cavity.learning.objectives import evidence, warm_start
from cavity.learning.objectives.evidence import Objective
from cavity.learning.objectives.warm_start import LARGEST_CHANGE, WarmStart

X = np.linspace(-1.0, 1.0, 12)[:, None]
LABELS = (np.sin(4.0 * X[:, 0]) > 0.2).astype(float)


def sites_at(x):
    """Sites that are linear in the point."""
    shift = jnp.asarray([[2.0 + x[0]], [1.0 - 0.5 * x[1]]])
    return ((ScalarSites(shift, 3.0 + shift),),)


def numbers(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def test_sites_that_are_linear_in_the_point_are_met():
    warm, points = WarmStart(), [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)]
    assert warm.last is None
    for point in points:
        warm.add(np.asarray(point), sites_at(point))
    new = np.array([0.06, 0.08])
    begun = warm.at(new)
    exact, last = numbers(sites_at(new)), numbers(sites_at(points[-1]))
    error, before = (np.abs(s - exact).max() for s in (numbers(begun), last))
    assert error < 1e-3 * before


def test_no_site_changes_by_more_than_a_share_of_it():
    warm = WarmStart()
    for point in ([0.0, 0.0], [0.1, 0.0]):
        warm.add(np.asarray(point), sites_at(point))
    begun, last = numbers(warm.at(np.array([100.0, 0.0]))), numbers(sites_at([0.1, 0.0]))
    np.testing.assert_allclose(np.max(np.abs(begun / last - 1.0)), LARGEST_CHANGE)


def test_sites_of_many_numbers_are_kept_for_fewer_points(monkeypatch):
    for most, kept in ((4 * 8, 5), (4 * 3, 3), (1, 2)):
        monkeypatch.setattr(warm_start, "MOST", most)
        warm = WarmStart()
        for number in range(5):
            warm.add(np.array([float(number), 0.0]), sites_at((number, 0.0)))
        assert [point[0] for point, _ in warm.points] == [4.0 - i for i in range(kept)][::-1]


def objective(method, accuracy):
    data = prepare(X, LABELS)
    model = as_dtype(GP(RBF(1.0, 0.5), likelihoods.Bernoulli("logit")), data)
    return Objective(model, data, method=method, accuracy=accuracy)


@pytest.fixture
def solvers(monkeypatch):
    """The settings of all searches for fixed points, as they come."""
    asked, search = [], evidence.find_fixed_point

    def recording(problem, solver, sites, **options):
        asked.append(solver)
        return search(problem, solver, sites, **options)

    monkeypatch.setattr(evidence, "find_fixed_point", recording)
    return asked


def test_sites_are_as_accurate_as_the_last_fall_asks_for(solvers):
    loose, accuracy = objective(PowerEP(), 1e-6), 1e-6
    value, slope = loose(loose.first)
    values, steps = [value], np.array([1e-3, 1.1e-3, 1.1001e-3]) / np.linalg.norm(slope)
    for step in steps:
        values.append(loose(loose.first - step * slope)[0])
    count = numbers(loose.sites).size
    falls = [np.inf, np.inf, *-np.diff(values)[:2]]
    squares = np.array([2.0 * 0.03 * max(fall, accuracy) for fall in falls])
    wanted = np.sqrt(squares / count)
    assert 1e-5 < wanted[3] < wanted[2] < 1e-3
    np.testing.assert_allclose([s.tolerance for s in solvers], np.minimum(wanted, 1e-3))
    # all changes together may be so large too, where the value bears ten times as much
    np.testing.assert_allclose([s.enough for s in solvers], np.minimum(squares / 10.0, 0.03))


@pytest.mark.parametrize(("method", "accuracy"), [(Laplace(), 1e-3), (PowerEP(), None)])
def test_other_sites_have_one_tolerance(solvers, method, accuracy):
    """Laplace's energy is not stationary in the sites; and nothing is loose unless asked for."""
    fn = objective(method, accuracy)
    for move in (0.0, 0.5):
        fn(fn.first + move)
    wanted = method.tolerance if accuracy is None else evidence.TIGHTEST
    assert [(s.tolerance, s.enough) for s in solvers] == [(wanted, 0.0)] * 2


def test_loose_sites_change_values_and_slopes_little():
    loose, exact = objective(PowerEP(), 1e-3), objective(PowerEP(), None)
    for move in (0.0, 0.5, 0.8, 0.81):
        (value, slope), (right, right_slope) = (fn(fn.first + move) for fn in (loose, exact))
        assert abs(value - right) < 1e-5
        np.testing.assert_allclose(slope, right_slope, atol=5e-3)


def test_sweeps_end_where_all_changes_together_are_small():
    """Counted by dense algebra: squares of changes, in deviations of the posterior before them."""
    data = prepare(X, LABELS)
    model = as_dtype(GP(RBF(1.0, 0.5), likelihoods.Bernoulli("probit")), data)
    graph = data.problem(model, PowerEP().approximation, 1e-8).graph()
    sites, squares, largest = empty_sites(graph), [], []
    K = np.exp(-0.5 * (X - X.T) ** 2 / 0.25) + 1e-8 * np.eye(len(X))
    for _ in range(8):
        now, (new,) = sites[0][0], (sweep(graph, sites, 1.0)[0])
        T, more = (np.asarray(s.precision)[: len(X), 0] for s in (now, new[0]))
        var = np.diag(np.linalg.inv(np.linalg.inv(K) + np.diag(T)))
        moved = (np.asarray(new[0].shift) - np.asarray(now.shift))[: len(X), 0]
        changes = np.concatenate([moved * np.sqrt(var), (more - T) * var])
        squares.append(np.sum(np.append(changes[: len(X)], changes[len(X) :] / np.sqrt(2)) ** 2))
        largest.append(np.max(np.abs(changes)))
        sites = (new,)
    near = next(k for k, change in enumerate(largest) if change < 1e-2)
    for last in (near, near + 1, near + 2):
        limits = Limits(1e-12, 50, jnp.asarray(1.0), enough=1.01 * squares[last])
        record = Parallel(graph, limits).run(empty_sites(graph))[1]
        assert (int(record.sweeps), bool(record.converged)) == (last + 1, True)
    limits = Limits(1e-12, 50, jnp.asarray(1.0), enough=1e3)
    record = Parallel(graph, limits).run(empty_sites(graph))[1]
    assert int(record.sweeps) == near + 1


def test_a_restored_objective_goes_on_exactly():
    first, second = objective(PowerEP(), 1e-3), objective(PowerEP(), 1e-3)
    for move in (0.0, 0.3, 0.5):
        first(first.first + move)
    second.restore(first.state())
    for move in (0.6, 0.65):
        point = first.first + move
        assert first(point)[0] == second(point)[0]
        for a, b in zip(*(jax.tree.leaves(o.state()) for o in (first, second)), strict=True):
            np.testing.assert_array_equal(a, b)
