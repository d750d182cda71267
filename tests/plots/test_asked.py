"""Axes to draw on, and messages about what cannot be drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

import cavity
from cavity import plots
from cavity.plots.kinds import KINDS
from tests.meta.source import ROOT
from tests.plots import models
from tests.plots.models import TWO, X, Y


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_axes_are_new_given_or_divided():
    result, before = models.result(columns=2), len(plt.get_fignums())
    display = plots.slices(result)
    assert len(plt.get_fignums()) == before + 1
    assert display.figure_ is plt.gcf()
    assert display.ax_ is display.axes_[0]
    mine = Figure().subplots(2)
    assert display.plot(mine) is display
    assert [*display.axes_] == [*mine]
    one = Figure().subplots()
    display.plot(one)
    assert len(display.axes_) == 2
    assert all(isinstance(ax, Axes) and ax is not one for ax in display.axes_)
    assert not one.axison
    free = Figure().add_axes((0.1, 0.1, 0.8, 0.8))
    display.plot(free)
    assert [*free.child_axes] == [*display.axes_]
    assert len(plt.get_fignums()) == before + 1


def test_what_is_no_axes_is_refused():
    with pytest.raises(TypeError, match=r"ax must be matplotlib's axes.*given Figure"):
        plots.function(models.result(), ax=Figure())
    with pytest.raises(TypeError, match="given int"):
        plots.function(models.result(), ax=3)
    with pytest.raises(ValueError, match="has 2 panels, and ax holds 3 axes"):
        plots.slices(models.result(columns=2), ax=Figure().subplots(3))


def test_too_many_columns_say_which_to_ask_for():
    wide = np.column_stack([X, *([np.cos(7.0 * i * X) for i in range(1, 10)])])
    model = cavity.GP(cavity.kernels.RBF(1.0, [0.5] + [50.0] * 9), cavity.likelihoods.Gaussian())
    result = cavity.infer(model, wide, Y)
    with pytest.raises(ValueError, match=r"10 columns, too many .* columns=\['x0', "):
        plots.slices(result)
    with pytest.raises(ValueError, match=r"this one has 10 .*slices\(model, X, columns=\['x0'\]"):
        plots.function(result)
    with pytest.raises(ValueError, match=r"no column 'x33' \(did you mean 'x3'\?\); there are x0"):
        plots.slices(result, columns=["x33"])
    with pytest.raises(ValueError, match="columns are none"):
        plots.slices(result, columns=[])
    assert plots.slices(result, columns="x3").panels == 1


def test_several_targets_have_to_be_told_apart():
    result = models.result(outputs=2)
    with pytest.raises(ValueError, match="2 targets: choose one, such as target='y0'"):
        plots.function(result)
    with pytest.raises(ValueError, match="no target 'z'; there are y0, y1"):
        plots.function(result, target="z")
    assert plots.function(result, target="y1").ax_.get_ylabel() == "y1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("m.cavity", r"give cavity.load\('m.cavity'\)"),
        (None, "given NoneType"),
        (cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian()), "is not fitted"),
        (Figure().subplots(), "cavity.drawing"),
    ],
)
def test_what_is_no_model_is_refused(given, said):
    with pytest.raises(TypeError, match=said):
        plots.function(given)


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimator_that_is_not_fitted_says_so(kind):
    for word, estimator in {
        "gp": cavity.GPRegressor(),
        "latent": cavity.GPEmbedding(),
        "state-space": cavity.GPForecaster(),
    }.items():
        if word in KINDS[kind]:
            with pytest.raises(NotFittedError, match="not fitted yet"):
                getattr(plots, kind)(estimator)


def test_a_picture_that_a_family_has_no_meaning_for():
    model, _ = models.embedding()
    with pytest.raises(ValueError, match=r"Gaussian processes \(GPRegressor, GPClassifier\)") as e:
        plots.slices(model, TWO)
    assert "this is a GPEmbedding, which has relevance, evidence and embedding" in str(e.value)
    with pytest.raises(ValueError, match=r"for time series \(GPForecaster\), and this is a Gauss"):
        plots.forecast(models.result())
    with pytest.raises(ValueError, match="ConvGPClassifier has them"):
        plots.patches(models.result())
    with pytest.raises(ValueError, match="no inducing points"):
        plots.inducing_points(models.result())


def test_rows_and_levels_that_are_missing_or_wrong():
    model, frame, _ = models.regressor()
    with pytest.raises(ValueError, match=r"predictions needs X and y"):
        plots.predictions(model, frame)
    with pytest.raises(ValueError, match=r"slices needs X"):
        plots.slices(model)
    for level in (0.0, 1.0, 90):
        with pytest.raises(ValueError, match=r"level must be in \(0, 1\)"):
            plots.function(model, level=level)
    with pytest.raises(ValueError, match="kind must be"):
        plots.SliceDisplay.from_estimator(model, frame, kind="both")
    with pytest.raises(ValueError, match="y has 3 rows, X has 24"):
        plots.residuals(models.result(), X[:, None], Y[:3])


def test_every_kind_is_a_function():
    assert {name for name in plots.__all__ if name.islower()} == set(KINDS)


def test_matplotlib_waits_until_something_is_drawn():
    for path in (ROOT / "src" / "cavity" / "plots").glob("*.py"):
        early = [
            line for line in path.read_text().splitlines() if line.startswith(("import", "from"))
        ]
        assert not [line for line in early if "matplotlib" in line], path.name
