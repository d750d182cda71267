"""Which columns a kernel's parameters belong to, and what they say of relevance."""

import numpy as np
import pytest

from cavity import GP, DeepGP, Layer, kernels, means
from cavity.inducing import Points
from cavity.kernels import RBF, Linear, Matern32, Periodic, parse
from cavity.likelihoods import Gaussian, MultinomialProbit
from cavity.report.parameters import kernel_parts, owners, parameter_rows, relevances
from cavity.tables.table_model import parameters

COLUMNS = ("age", "bmi", "sex")


def places(kernel, n=3):
    return [
        (part.path, type(part.kernel).__name__, part.columns)
        for part in kernel_parts(kernel, range(n))
    ]


def test_parts_know_their_columns():
    kernel = RBF(1.0, [1.0, 2.0]).on(2, 0) + 2.0 * Linear().on(1)
    assert places(kernel) == [
        ("kernel", "Sum", (0, 1, 2)),
        ("kernel.first.kernel", "RBF", (2, 0)),
        ("kernel.second", "Scaled", (0, 1, 2)),
        ("kernel.second.kernel.kernel", "Linear", (1,)),
    ]


def test_active_within_active():
    kernel = RBF().on(1).on(2, 0)
    assert places(kernel) == [("kernel.kernel.kernel", "RBF", (0,))]


def test_kernels_in_tuples_are_found():
    class Several(kernels.AbstractKernel):
        parts: tuple

        def cross(self, X, Z):
            return sum(part.cross(X, Z) for part in self.parts)

        def diag(self, X):
            return sum(part.diag(X) for part in self.parts)

    found = places(Several((RBF(), Linear())), 1)
    assert [path for path, *_ in found] == ["kernel", "kernel.parts.0", "kernel.parts.1"]


def test_relevance_is_spread_over_lengthscale():
    (found,) = relevances(RBF(1.0, [1.0, 2.0, 4.0]), np.array([3.0, 2.0, 1.0]))
    assert (found.part, found.columns) == ("RBF", (0, 1, 2))
    np.testing.assert_allclose(found.values, [3.0, 1.0, 0.25])


def test_relevance_of_several_parts():
    kernel = Matern32(1.0, [1.0, 2.0]).on(2, 0) + Linear([4.0, 9.0, 1.0])
    matern, linear = relevances(kernel, np.array([3.0, 2.0, 1.0]))
    assert (matern.part, matern.columns) == ("Matern32", (2, 0))
    np.testing.assert_allclose(matern.values, [1.0, 1.5])
    np.testing.assert_allclose(linear.values, [6.0, 6.0, 1.0])


@pytest.mark.parametrize(
    "kernel",
    [RBF(), Periodic(1.0, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]), parse("constant + white", 3)],
)
def test_no_relevance_without_a_lengthscale_per_column(kernel):
    assert relevances(kernel, np.ones(3)) == []


def rows(model, targets=("y",), scale=None):
    values = parameters(model, np.ones(len(targets)) if scale is None else np.asarray(scale))
    return parameter_rows(model, values, COLUMNS, targets)


def test_rows_of_parameters():
    kernel = RBF(2.0, [1.0, 2.0]).on(2, 0) + Linear([4.0, 9.0, 1.0], [0.0, 0.0, 0.0])
    model = GP(kernel, Gaussian(0.5), mean=means.Constant(7.0))
    assert [tuple(row) for row in rows(model)] == [
        ("kernel.first.kernel.variance", "", 2.0, "target²"),
        ("kernel.first.kernel.lengthscale", "sex", 1.0, "column"),
        ("kernel.first.kernel.lengthscale", "age", 2.0, "column"),
        ("kernel.second.variance", "age", 4.0, "target² per column²"),
        ("kernel.second.variance", "bmi", 9.0, "target² per column²"),
        ("kernel.second.variance", "sex", 1.0, "target² per column²"),
        ("likelihood.variance", "", 0.5, "target²"),
        ("mean.value", "", 7.0, "target"),
    ]


def test_the_second_factor_of_a_product_has_no_units():
    units = {row.name: row.units for row in rows(GP(RBF() * Periodic(), Gaussian()))}
    assert units["kernel.first.variance"] == "target²"
    assert units["kernel.second.variance"] == "none"
    assert units["kernel.second.period"] == "column"


def test_rows_of_a_spectral_mixture():
    found = rows(GP(parse("spectral_mixture2", 3), Gaussian()))
    assert [r.place for r in found[:3]] == ["component 1", "component 2", "component 1, age"]


def test_rows_for_targets_of_different_scale():
    model = GP(RBF(1.0, [1.0, 1.0, 1.0]), Gaussian([0.1, 0.2]), mean=means.Constant([1.0, 2.0]))
    found = rows(model, ("y", "z"), [1.0, 10.0])
    variances = [(r.place, r.value) for r in found if r.name == "kernel.variance"]
    assert variances == [("y", 1.0), ("z", 100.0)]
    noise = [(r.place, r.value) for r in found if r.name == "likelihood.variance"]
    assert noise == [("y", 0.1), ("z", pytest.approx(20.0))]


def test_rows_of_the_means_of_classes():
    each = tuple(means.Linear(np.full(3, float(i)), i + 0.5) for i in range(3))
    model = GP(RBF(), MultinomialProbit(3), mean=each)
    values, classes = parameters(model, np.ones(1)), ("ant", "bee", "cat")
    found = parameter_rows(model, values, COLUMNS, ("kind",), classes)
    assert [r.place for r in found if r.name == "mean.1.weights"] == [
        "bee, age",
        "bee, bmi",
        "bee, sex",
    ]
    assert [(r.place, r.value) for r in found if r.name == "mean.2.bias"] == [("cat", 2.5)]
    assert [r.place for r in found if r.name == "kernel.variance"] == [""]


def test_rows_of_a_linear_mean():
    model = GP(RBF(), Gaussian(), mean=means.Linear(np.arange(6.0).reshape(3, 2), [8.0, 9.0]))
    found = rows(model, ("y", "z"))
    weights = [(r.place, r.value) for r in found if r.name == "mean.weights"]
    assert weights[:3] == [("age, y", 0.0), ("age, z", 1.0), ("bmi, y", 2.0)]
    assert [r.place for r in found if r.name == "mean.bias"] == ["y", "z"]


def test_functions_that_share_a_kernel_have_one_row_for_it():
    """Layers have a kernel for each of their sizes."""
    below = Layer((RBF(2.0, 0.5), RBF(3.0, 0.7)), Points(np.zeros((2, 3))), 3, sizes=(1, 2))
    model = DeepGP([below, Layer(RBF(), Points(np.zeros((2, 3))))], Gaussian(0.5))
    found = rows(model)
    assert [r.value for r in found if r.name.startswith("layers.0.kernel")] == [2.0, 0.5, 3.0, 0.7]


def test_one_lengthscale_of_a_category_is_called_by_its_column():
    features = ["age", "colour=blue", "colour=red", "sex"]
    kernel = RBF(1.0, [2.0, 4.0, 1.0], groups=(0, 1, 1, 2))
    (found,) = relevances(kernel, np.array([3.0, 0.6, 0.8, 0.5]))
    assert found.names(features) == ["age", "colour", "sex"]
    # the spread of a category is that of its rows about their mean: the root of .36 + .64
    np.testing.assert_allclose(found.values, [1.5, 0.25, 0.5])
    model = GP(kernel, Gaussian())
    rows = parameter_rows(model, parameters(model, np.ones(1)), features, ["y"])
    scales = [row for row in rows if row.name == "kernel.lengthscale"]
    assert [(row.place, row.value) for row in scales] == [
        ("age", 2.0),
        ("colour", 4.0),
        ("sex", 1.0),
    ]
    assert owners(["x", "z", "colour=a"], [0, 0, 1]) == ["x and 1 more", "colour=a"]
