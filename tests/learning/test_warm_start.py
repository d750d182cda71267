"""Private sites while learning: where they begin, and how accurately they are found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity import GP, likelihoods
from cavity.inference.graph.sites import ScalarSites
from cavity.kernels import RBF
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.methods import Laplace, PowerEP
from cavity.learning.objectives import evidence
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
    at_hand = sites_at(points[0])
    assert warm.at(np.zeros(2), at_hand) is at_hand
    for point in points:
        warm.add(np.asarray(point), sites_at(point))
    new = np.array([0.06, 0.08])
    begun = warm.at(new, sites_at(points[-1]))
    exact, last = numbers(sites_at(new)), numbers(sites_at(points[-1]))
    error, before = (np.abs(s - exact).max() for s in (numbers(begun), last))
    assert error < 1e-3 * before


def test_no_site_changes_by_more_than_a_share_of_it():
    warm = WarmStart()
    for point in ([0.0, 0.0], [0.1, 0.0]):
        warm.add(np.asarray(point), sites_at(point))
    at_hand = sites_at([0.1, 0.0])
    begun, last = numbers(warm.at(np.array([100.0, 0.0]), at_hand)), numbers(at_hand)
    np.testing.assert_allclose(np.max(np.abs(begun / last - 1.0)), LARGEST_CHANGE)


def objective(method, accuracy):
    data = prepare(X, LABELS)
    model = as_dtype(GP(RBF(1.0, 0.5), likelihoods.Bernoulli("logit")), data)
    return Objective(model, data, method=method, accuracy=accuracy)


@pytest.mark.parametrize("method", [PowerEP(), Laplace()])
def test_values_are_as_accurate_as_asked_for(method, monkeypatch):
    tolerances = []
    search = evidence.find_fixed_point

    def recording(problem, solver, sites, **options):
        tolerances.append(solver.tolerance)
        return search(problem, solver, sites, **options)

    monkeypatch.setattr(evidence, "find_fixed_point", recording)
    loose, exact = objective(method, 1e-3), objective(method, None)
    moves = [0.0, 0.5, 0.8, 0.81, 0.811]
    for move in moves:
        point = loose.first + move
        value, slope = loose(point)
        right, right_slope = exact(point)
        assert abs(value - right) < 0.1 * max(loose.fall if move else 1.0, 1e-3)
        np.testing.assert_allclose(slope, right_slope, atol=0.02)
    loosely = tolerances[::2]
    assert tolerances[1::2] == [method.tolerance] * len(moves)
    if isinstance(method, Laplace):  # its energy is not stationary in the sites
        assert loosely == [evidence.LEARNING] * len(moves)
    else:
        assert loosely[0] == evidence.LOOSEST
        assert evidence.LEARNING <= loosely[-1] <= evidence.LOOSEST


def test_a_restored_objective_goes_on_exactly():
    first, second = objective(PowerEP(), 1e-3), objective(PowerEP(), 1e-3)
    for move in (0.0, 0.3, 0.5):
        first(first.first + move)
    second.restore(first.state())
    point = first.first + 0.6
    assert first(point)[0] == second(point)[0]
