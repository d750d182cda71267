"""Displays of functions: their numbers, and what they draw."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import norm

import cavity
from cavity import plots
from cavity.diagnostics import kernel_components
from tests.plots import models
from tests.plots.models import NOISE, TWO, X, Y
from tests.tolerances import assert_close

Z90 = norm.ppf(0.95)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def words(ax):
    """The names in a legend of the figure or the axes."""
    legends = [*ax.figure.legends, ax.get_legend()]
    return [text.get_text() for legend in legends if legend for text in legend.get_texts()]


def test_a_function_has_both_bands_and_the_data():
    result = models.result()
    display = plots.function(result)
    grid = display.x[:, None]
    mean, var = map(np.asarray, result.posterior.marginals(grid))
    assert_close(display.mean, mean)
    assert_close(display.function, mean + Z90 * np.sqrt(var) * np.array([[-1.0], [1.0]]))
    new = Z90 * np.sqrt(var + NOISE) * np.array([[-1.0], [1.0]])
    assert_close(display.values, mean + new)
    (line,) = display.ax_.get_lines()
    assert_close(line.get_xydata(), np.column_stack([display.x, mean]))
    points = display.ax_.collections[-1].get_offsets()
    assert_close(points, np.column_stack([X, Y]))
    assert words(display.ax_) == ["90 % of new values", "90 % of the function", "mean", "data"]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("x0", "y")
    assert display.x[0] < X[0]
    assert display.x[-1] > X[-1]


def test_it_is_in_the_units_of_the_data_with_their_names(tmp_path):
    model, frame, y = models.regressor()
    display = plots.function(model, frame, y, level=0.5)
    grid = frame.iloc[[0, -1]].assign(age=display.x[[0, -1]])
    mean, std = model.predict_latent(grid, return_std=True)
    assert_close(display.mean[[0, -1]], mean)
    assert_close(display.function[1, [0, -1]], mean + norm.ppf(0.75) * std)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("age", "pressure")
    assert words(display.ax_)[0] == "50 % of new values"
    model.save(tmp_path / "m.cavity")
    loaded = plots.function(cavity.load(tmp_path / "m.cavity"))
    assert_close(loaded.x, display.x)
    assert_close(loaded.mean, display.mean)
    assert loaded.data_y is None


def test_of_two_classes_it_is_a_probability():
    model, labels = models.classifier()
    display = plots.function(model, X[:, None], labels)
    assert_close(display.mean, model.predict_proba(display.x[:, None])[:, 1])
    assert np.all((display.function[0] <= display.mean) & (display.mean <= display.function[1]))
    assert display.values is None
    assert set(display.data_y) == {0.0, 1.0}
    assert display.ax_.get_ylabel() == "probability of low"


def test_of_counts_the_function_is_their_mean():
    result = models.counts()
    display = plots.function(result)
    mean, var = map(np.asarray, result.posterior.marginals(display.x[:, None]))
    assert_close(display.function[1], np.exp(mean + Z90 * np.sqrt(var)), "quadrature")
    assert np.all(display.values == np.round(display.values))


def test_of_many_classes_it_is_areas():
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Softmax(3))
    result = cavity.infer(model, X[:, None], np.arange(24) % 3.0)
    display = plots.function(result)
    assert display.shares.shape == (len(display.x), 3)
    assert_close(display.shares.sum(axis=1), np.ones(len(display.x)))
    assert len(display.ax_.collections) == 3


def test_inducing_points_of_one_column_and_of_two():
    display = plots.inducing_points(models.result(4))
    assert_close(display.points[:, 0], X[::4])
    (marks,) = (line for line in display.ax_.get_lines() if line.get_marker() == "v")
    assert_close(marks.get_xdata(), X[::4])
    display = plots.inducing_points(models.result(4, columns=2))
    data, points = display.ax_.collections
    assert_close(points.get_offsets(), TWO[::4])
    assert_close(data.get_offsets(), TWO)
    assert plots.inducing_points(models.result(4)).plot().function is not None


def test_slices_hold_the_others_at_typical_values():
    result = models.result(columns=2)
    display = plots.slices(result)
    assert [cut.column.name for cut in display.cuts] == ["x0", "x1"]
    first = display.cuts[0]
    at = np.column_stack([first.places, np.full(len(first.places), np.median(TWO[:, 1]))])
    mean, var = map(np.asarray, result.posterior.marginals(at))
    assert_close(display.curves[0].mean, mean)
    assert_close(display.curves[0].values[1], mean + Z90 * np.sqrt(var + NOISE))
    assert [ax.get_xlabel() for ax in display.axes_] == ["x0", "x1"]
    assert display.axes_[0].get_ylim() == display.axes_[1].get_ylim()
    assert [c.column.name for c in plots.slices(result, columns="x1").cuts] == ["x1"]
    assert [c.column.name for c in plots.slices(result, columns=[1, 0]).cuts] == ["x1", "x0"]


def test_partial_effects_are_averages_with_the_band_of_the_average():
    result = models.result(columns=2)
    display = plots.partial_effects(result, columns=["x1"])
    curve, place = display.curves[0], display.cuts[0].places[3]
    rows = np.column_stack([TWO[:, 0], np.full(24, place)])
    mean, cov = map(np.asarray, result.posterior.joint(rows))
    assert_close(curve.mean[3], mean.mean())
    assert_close(curve.function[1, 3], mean.mean() + Z90 * np.sqrt(cov.mean()), "factorised")
    assert curve.values is None
    assert display.ax_.get_ylabel() == "average y"


def test_slices_of_categories_and_of_classes():
    import pandas as pd

    frame = pd.DataFrame({"a": X, "kind": np.where(X > 2.0, "u", "v")})
    model = cavity.GPRegressor(max_iterations=0).fit(frame, Y)
    display = plots.slices(model, frame)
    assert display.cuts[1].levels == ("u", "v")
    labels = [text.get_text() for text in display.axes_[1].get_xticklabels()]
    assert labels == ["u", "v"]
    assert len(display.curves[1].mean) == 2


@pytest.mark.parametrize("outputs", [1, 2])
def test_components_are_those_of_the_diagnostic(outputs):
    result = models.result(outputs=outputs)
    target = None if outputs == 1 else 1
    display = plots.components(result, target=target)
    found = kernel_components(result, display.cuts[0].X)
    for i in range(2):
        mean, var = (a[i] if outputs == 1 else a[i][:, 1] for a in (found.mean, found.var))
        assert_close(display.curves[i].mean, mean)
        assert_close(display.curves[i].function[0], mean - Z90 * np.sqrt(var))
    assert [ax.get_title() for ax in display.axes_] == ["rbf", "linear"]
    assert display.axes_[0].get_ylim() == display.axes_[1].get_ylim()


def test_components_of_an_estimator_are_in_its_units():
    model, frame, _ = models.regressor()
    display = plots.components(model, frame)
    total = sum(curve.mean for curve in display.curves)
    latent = model.predict_latent(frame.iloc[:0].reindex(range(2)).assign(age=[0.0, 4.0]))
    grid = np.interp([0.0, 4.0], display.cuts[0].places, total)
    # what is left is the prior mean, which is constant
    assert_close(np.diff(grid), np.diff(latent), "gradient", scale=np.ptp(total) * 100)
    assert display.ax_.get_ylabel() == "part of pressure"


def test_components_are_drawn_along_the_column_that_they_see():
    kernel = cavity.kernels.RBF().on(1) + cavity.kernels.RBF()
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(NOISE))
    result = cavity.infer(model, TWO, Y)
    with pytest.raises(ValueError, match=r"sees 2 columns: say along which .* column='x0'"):
        plots.components(result)
    display = plots.components(result, column="x0")
    assert [cut.column.name for cut in display.cuts] == ["x1", "x0"]


def test_a_function_of_arrays():
    x = np.linspace(0.0, 1.0, 5)
    display = plots.FunctionDisplay.from_predictions(
        x, x**2, values=(x - 1.0, x + 1.0), data=(x, x), names=("u", "v")
    )
    assert words(display.ax_) == ["90 % of new values", "mean", "data"]
    assert display.ax_.get_xlabel() == "u"
