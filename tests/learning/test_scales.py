"""Scales of the data, and parameters in their units."""

import dataclasses

import equinox as eqx
import numpy as np
import pytest

import cavity
from cavity.learning.data.arrays import prepare
from cavity.learning.data.scales import LOCATION, Scales, coordinate_scales, in_data_units, measure
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.parameters import FIXED, Real, bijections
from cavity.parameters.trees import entries
from tests.tolerances import assert_close

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2)) * [10.0, 0.1] + [5.0, -3.0]
Y = 4.0 * RNG.normal(size=(30, 2)) + [1.0, -2.0]


def test_measure():
    scales = measure(X, Y)
    assert_close(scales.x_centre, X.mean(axis=0))
    assert_close(scales.x_spread, X.std(axis=0))
    assert_close(scales.y_centre, Y.mean(axis=0))
    assert_close(scales.y_spread, np.sqrt(np.mean((Y - Y.mean(axis=0)) ** 2)))


def test_measure_leaves_absent_outputs_out():
    presence = np.ones_like(Y)
    presence[::3, 0] = 0.0
    spoiled = np.where(presence == 0.0, 1e6, Y)
    scales = measure(X, spoiled, presence)
    kept = Y[presence[:, 0] > 0, 0]
    assert_close(scales.y_centre, [kept.mean(), Y[:, 1].mean()])
    deviations = np.concatenate([kept - kept.mean(), Y[:, 1] - Y[:, 1].mean()])
    assert_close(scales.y_spread, np.sqrt(np.mean(deviations**2)))


@pytest.mark.parametrize("constant", [0.0, 1e6, 1e-9])
def test_constant_columns_have_a_usable_spread(constant):
    scales = measure(np.full((5, 1), constant), np.full((5, 1), constant))
    assert scales.x_spread[0] == 1.0
    assert scales.y_spread == (constant or 1.0)


def test_the_spread_is_that_of_outputs_that_vary():
    steady = np.column_stack([Y, np.full(len(Y), 1e4)])
    assert_close(measure(X, steady).y_spread, measure(X, Y).y_spread)
    empty = np.column_stack([Y, np.zeros(len(Y))])
    presence = np.ones_like(empty)
    presence[:, -1] = 0.0
    assert_close(measure(X, empty, presence).y_spread, measure(X, Y).y_spread)


def test_parameters_move_to_the_units_of_the_data():
    """Lengths with the columns, variances with the square of the outputs, places with both."""
    scales = Scales(np.array([5.0, -3.0]), np.array([10.0, 0.1]), np.array([1.0]), 4.0)
    model = cavity.GP(
        cavity.kernels.RBF(2.0, 0.5) + cavity.kernels.Matern32(1.0, 3.0).on(1),
        cavity.likelihoods.Gaussian(0.1),
        cavity.inducing.Points(np.array([[1.0, -1.0]])),
        cavity.means.Linear([0.5, 0.5], 0.25),
    )
    moved = in_data_units(model, scales)
    assert_close(moved.kernel.first.variance, 32.0)
    assert_close(moved.kernel.first.lengthscale, [5.0, 0.05])
    assert_close(moved.kernel.second.kernel.lengthscale, 0.3)
    assert_close(moved.likelihood.variance, 1.6)
    assert_close(moved.inducing.Z, [[15.0, -3.1]])
    assert_close(moved.mean.weights, [0.2, 20.0])
    assert_close(moved.mean.bias, 1.0)


def test_a_product_has_the_units_of_the_output_once():
    scales = Scales(np.zeros(1), np.ones(1), np.zeros(1), 4.0)
    moved = in_data_units(cavity.kernels.RBF(2.0) * cavity.kernels.Periodic(3.0), scales)
    assert_close(moved.first.variance, 32.0)
    assert_close(moved.second.variance, 3.0)


def test_a_sum_over_parts_has_the_scales_of_all_parts():
    """Spreads over all rows and places of what a column of a patch is."""
    images = np.random.default_rng(1).normal(size=(9, 12)) * np.arange(1.0, 13.0) + 2.0
    parts = cavity.kernels.Patches((3, 4), (2, 3), positions=True)
    sums = cavity.kernels.SumOver(parts, cavity.kernels.Linear(1.0, 1.0))
    found = in_data_units(sums, dataclasses.replace(measure(images, Y[:9]), y_spread=1.0)).base
    each = np.asarray(parts.of(images)).reshape(-1, 8)
    assert_close(found.variance, each.std(axis=0) ** -2.0, "factorised")
    assert_close(found.centre, each.mean(axis=0) + each.std(axis=0), "factorised")
    row = cavity.kernels.SumOver(
        cavity.kernels.Patches((1, 12), (1, 2), positions=True), cavity.kernels.RBF()
    )
    assert in_data_units(row, measure(images, Y[:9])).base.lengthscale[2] == 1.0  # one row alone


def test_the_moved_model_is_the_same_model():
    """The evidence of standardised data, less the change of units."""
    y = Y[:, 0]
    scales = measure(X, y[:, None])
    model = cavity.GP(
        cavity.kernels.RBF(1.2, [0.7, 1.3]) * cavity.kernels.RationalQuadratic(1.0, 2.0, 1.5),
        cavity.likelihoods.Gaussian(0.1),
        cavity.inducing.Points(RNG.normal(size=(5, 2))),
    )
    standard = (X - scales.x_centre) / scales.x_spread
    here = cavity.infer(model, standard, y / scales.y_spread).log_evidence
    there = cavity.infer(in_data_units(model, scales), X, y).log_evidence
    assert_close(there + 30 * np.log(scales.y_spread), here, "factorised")


@pytest.mark.parametrize("n", [5, 30])
def test_steps_are_those_of_the_data_without_padding(n):
    """1 for logarithms; spreads of its column for a place; padding rows are no data."""
    model = cavity.GP(
        cavity.kernels.RBF(1.0, [1.0, 1.0]),
        cavity.likelihoods.Gaussian(0.1),
        cavity.inducing.Points(X[:2]),
        cavity.means.Constant(0.0),
    )
    data = prepare(X[:n], Y[:n])
    scales = coordinate_scales(model, bijections(model), data.scales(model.likelihood))
    x, y = X[:n].std(axis=0), measure(X[:n], Y[:n]).y_spread
    assert_close(scales, [1, 1, 1, 1, *(LOCATION * x), *(LOCATION * x), y])
    blocks = prepare(X[:n], Y[:n], blocks=np.arange(n) // 4)
    in_blocks = blocks.scales(model.likelihood)
    assert_close(coordinate_scales(model, bijections(model), in_blocks), scales)


@pytest.mark.parametrize("linear", [True, False])
def test_layers_have_the_scales_of_hidden_values(rng, linear):
    """Those of the prior mean; where it is constant, of the inducing points that see them."""
    X, Z = rng.standard_normal((9, 2)), 50.0 * rng.standard_normal((6, 1))
    weights = cavity.means.Linear(np.array([[3.0], [1.0]]), np.zeros(1))
    mean = weights if linear else cavity.means.Constant(5.0)
    below = cavity.Layer(cavity.kernels.RBF(), cavity.inducing.Points(X), 1, mean)
    last = cavity.Layer(
        cavity.kernels.RBF(), cavity.inducing.Points(Z), mean=cavity.means.Constant(1.0)
    )
    model = cavity.DeepGP([below, last], cavity.likelihoods.Gaussian())
    scales = Scales(np.zeros(2), np.array([2.0, 8.0]), np.zeros(1), 1000.0)
    maps = bijections(model)
    steps = coordinates_by_name(model, maps, coordinate_scales(model, maps, scales))
    hidden = 10.0 if linear else Z.std()  # 3 times 2, and 8
    assert_close(steps["layers.0.inducing.Z"][0], LOCATION * scales.x_spread)
    assert_close(steps["layers.0.mean.bias" if linear else "layers.0.mean.value"], hidden)
    assert_close(steps["layers.1.inducing.Z"], np.full((6, 1), LOCATION * hidden))
    assert_close(steps["layers.1.mean.value"], 1000.0)
    assert_close(steps["likelihood.variance"], 1.0)


def coordinates_by_name(model, maps, flat):
    """Free coordinates by the names of their parameters."""
    found, start = {}, 0
    for name, value, b in entries(model, maps):
        if b.free:
            found[name] = flat[start : start + value.size].reshape(value.shape)
            start += value.size
    return found


def test_inducing_inputs_move_further_than_logarithms():
    points = cavity.inducing.Points(X[:3])
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian(), points)
    scales = measure(X, Y)
    steps = coordinate_scales(model, bijections(model), scales)
    assert_close(steps[-6:].reshape(3, 2), LOCATION * np.tile(X.std(axis=0), (3, 1)))
    assert_close(steps[:-6], np.ones(3))


@pytest.mark.parametrize("points", [FIXED, Real()])
def test_a_learned_centre_of_a_kernel_is_no_inducing_input(points):
    """Both are locations among the inputs; the wider tolerance is for inducing inputs alone."""
    data = prepare(X, Y[:, 0])
    model = cavity.GP(
        cavity.kernels.Linear(1.0, np.zeros(2)),
        cavity.likelihoods.Gaussian(0.1),
        cavity.inducing.Points(X[:3]),
    )
    free = (Real(), points)
    maps = eqx.tree_at(lambda m: (m.kernel.centre, m.inducing.Z), bijections(model), free)
    assert Objective(as_dtype(model, data), data, maps=maps).learns_inducing == (points != FIXED)
