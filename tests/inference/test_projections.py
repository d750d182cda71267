"""Projections that rows carry: functions of one kernel share one, and sweeps hold it."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import cavity
from cavity.inference.energy import beliefs, empty_sites, energy
from cavity.inference.graph import projections
from cavity.inference.graph.projections import with_projections
from cavity.inference.solvers.parallel import sweep
from cavity.inference.variables.inducing_view import InducingView
from cavity.learning.data.arrays import prepare
from cavity.likelihoods import Bernoulli, MultinomialProbit
from cavity.means import Constant
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(64, 2))
LABELS = RANDOM.integers(0, 3, 64).astype(float)
KERNEL = cavity.kernels.RBF(1.3, 0.4)
POINTS = cavity.inducing.Points(X[:5])
MEANS = (Constant(0.3), Constant(-0.2), Constant(0.1))
METHODS = {
    "private": cavity.PowerEP(coupled=False),
    "tied": cavity.TiedPowerEP(),
}


def laid_out(model, method, power, **options):
    data = prepare(X, LABELS, power=power, **options)
    return data.problem(model, method.approximation, 1e-8).graph()


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_functions_of_one_kernel_are_those_of_equal_kernels(name):
    """The mean of each function stays its own."""

    @eqx.filter_jit
    def reached(kernel):
        model = cavity.GP(kernel, MultinomialProbit(3), POINTS, MEANS)
        graph = laid_out(model, METHODS[name], 0.5)
        sites = sweep(graph, empty_sites(graph), 0.5)[0]
        held = sweep(graph.with_projections(), empty_sites(graph), 0.5)[0]
        return sites, held, beliefs(graph, sites), energy(graph, sites)

    together, apart = reached(KERNEL), reached((KERNEL,) * 3)
    sites, held, _, value = together
    assert_close(value, apart[3], "factorised")
    for found, expected in ((sites, apart[0]), (held, sites), (together[2], apart[2])):
        pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
        for one, other in pairs:
            assert_close(one, other, "factorised")


@pytest.mark.slow
def test_the_slope_in_one_kernel_is_the_sum_of_those_in_equal_ones():
    @eqx.filter_jit
    @eqx.filter_grad
    def slope(kernel):
        model = cavity.GP(kernel, MultinomialProbit(3), POINTS, MEANS)
        graph = laid_out(model, METHODS["private"], 0.5)
        sites = jax.tree.map(jax.lax.stop_gradient, empty_sites(graph))
        return energy(graph, sweep(graph, sites, 0.5)[0])

    one, each = slope(KERNEL), slope((KERNEL,) * 3)
    assert_close(one.lengthscale, sum(k.lengthscale for k in each), "factorised")
    assert_close(one.variance, sum(k.variance for k in each), "factorised")


@pytest.mark.parametrize("count", [2, 5])
def test_one_projection_whatever_the_number_of_functions(monkeypatch, count):
    calls = []
    original = InducingView.explained
    monkeypatch.setattr(
        InducingView, "explained", lambda view, rows: (calls.append(1), original(view, rows))[1]
    )
    model = cavity.GP(KERNEL, MultinomialProbit(count), POINTS)
    graph = laid_out(model, METHODS["private"], 0.5).with_projections()
    assert len(calls) == 1
    jax.eval_shape(lambda: sweep(graph, empty_sites(graph), 0.5)[0])
    assert len(calls) == 1
    # different kernels have projections of their own
    model = cavity.GP((KERNEL,) * count, MultinomialProbit(count), POINTS)
    laid_out(model, METHODS["private"], 0.5).with_projections()
    assert len(calls) == 1 + count


def test_blocks_carry_projections():
    data = prepare(X, LABELS, power=0.5, blocks=np.repeat(np.arange(16), 4))
    variable_and_view = (
        cavity.GP(KERNEL, Bernoulli(), POINTS)
        .latents[0]
        .lay_out(data.rows, 1e-8, tied=False, mixed=False, number=0)
    )
    view: Any = variable_and_view[1]
    carrying = with_projections([view], data.rows)
    assert carrying.projections[0][0].shape == (16, 5, 4)
    for found, expected in zip(
        jax.tree.leaves(view.project(carrying)),
        jax.tree.leaves(view.project(data.rows)),
        strict=True,
    ):
        assert_close(found, expected)


def test_what_is_too_much_is_not_held(monkeypatch):
    monkeypatch.setattr(projections, "HELD", 64 * 5 - 1)
    graph = laid_out(cavity.GP(KERNEL, Bernoulli(), POINTS), METHODS["private"], 0.5)
    assert not graph.with_projections().only_factor().rows.projections
    monkeypatch.setattr(projections, "HELD", 64 * 5)
    assert graph.with_projections().only_factor().rows.projections[0][0].shape == (64, 5)
