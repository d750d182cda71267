"""Pictures: what is drawn is what was given, whatever the data are like."""

import itertools
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest

from cavity.columns.dates import Dates, Writing
from cavity.learning.metrics.classification import Reliability, Roc
from cavity.report import class_plots, plots

SVG = "{http://www.w3.org/2000/svg}"


def axes_of(draw, **settings):
    """The axes on which a function drew, once the figure has been made a picture."""
    kept = []

    def on_figure(figure):
        kept.append(figure.subplots())
        draw(kept[0])

    svg = plots.picture(on_figure, **settings)
    ElementTree.fromstring(svg)
    return kept[0], svg


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def quantiles(mean, std=1.0):
    return mean[:, None] + std * np.array([-1.96, -0.67, 0.67, 1.96])


# ------------------------------------------------------------------------------ the file


def test_a_picture_leaves_no_trace():
    code = """
import sys, matplotlib
from cavity.learning.metrics.classification import Reliability, Roc
from cavity.report import class_plots, plots
before = dict(matplotlib.rcParams)
plots.picture(lambda figure: figure.subplots().plot([1, 2]))
assert dict(matplotlib.rcParams) == before
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_callers_style_plays_no_part():
    def draw(figure):
        figure.subplots().plot([1, 2], label="a")

    usual = plots.picture(draw)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "axes.grid": True}):
        assert plots.picture(draw) == usual


def test_nothing_in_the_file_points_elsewhere():
    _, svg = axes_of(lambda axes: plots.draw_data(axes, np.arange(5.0), np.arange(5.0)))
    root = ElementTree.fromstring(svg)
    addresses = [v for e in root.iter() for k, v in e.attrib.items() if k.endswith("href")]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert svg.count("http") == svg.count("http://www.w3.org/")  # the names of XML itself


def test_dark_surroundings_change_the_colours():
    _, svg = axes_of(lambda axes: axes.plot([1, 2], color=plots.MODEL))
    assert "prefers-color-scheme:dark" in svg
    assert svg.count(plots.MODEL) == 1  # where the variable is set
    assert svg.count(plots.INK) == 1


def test_shortening_leaves_names_alone():
    name = 'w 1.23456 style="fill: red" <use style="x">'
    _, svg = axes_of(lambda axes: axes.set_xlabel(plots.label(name, 60)))
    assert name in texts(svg)


# --------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("größe_数", "größe_数"),
        ("two\nlines\tand\x00more", "two lines andmore"),
        ("x" * 100, "x" * 24 + "…" + "x" * 7),
        ("", ""),
    ],
)
def test_label(name, shown):
    assert plots.label(name) == shown


def test_labels_differ():
    long = [f"a long name whose number {i} is in its middle, of some" for i in range(3)]
    found = plots.labels(["y", *long], 30)
    assert found[0] == "y"
    assert len(set(found)) == 4
    assert all(len(text) <= 30 for text in found)


@pytest.mark.parametrize("name", ["a $x_1$ b$", "<script>alert(1)</script>", "a & b", "数 🦊"])
def test_names_are_shown_as_they_are(name):
    x = np.arange(4.0)
    _, svg = axes_of(lambda axes: plots.draw_bands(axes, x, x, quantiles(x), name))
    assert name in texts(svg)
    assert "<script" not in svg


# --------------------------------------------------------------------------- calibration


def test_calibration_draws_what_it_is_given():
    levels, observed = np.array([0.25, 0.5, 0.75]), np.array([0.2, 0.6, 0.7])
    axes, svg = axes_of(
        lambda axes: plots.draw_calibration(axes, levels, observed, levels - 0.1, levels + 0.1)
    )
    ideal, model = axes.lines
    np.testing.assert_array_equal(ideal.get_xdata(), ideal.get_ydata())
    np.testing.assert_array_equal(model.get_xydata(), np.stack([levels, observed], axis=1))
    assert {"ideal", "this model", "chance alone (95 %)"} <= set(texts(svg))


def test_pit_is_a_density():
    values = np.random.default_rng(0).uniform(size=500)
    axes, _ = axes_of(lambda axes: plots.draw_pit(axes, np.append(values, [0.0, 1.0])))
    heights = [bar.get_height() for bar in axes.patches]
    assert np.mean(heights) == pytest.approx(1.0)


# ------------------------------------------------------------- predictions and residuals


@pytest.mark.parametrize(
    ("count", "collections"),
    [(1, 2), (plots.MOST_BARS, 2), (plots.MOST_BARS + 1, 1), (plots.MOST_POINTS + 1, 1)],
)
def test_predictions_by_the_number_of_rows(rng, count, collections):
    observed = rng.normal(size=count)
    mean = observed + 0.1 * rng.normal(size=count)
    axes, svg = axes_of(
        lambda axes: plots.draw_predictions(axes, observed, mean, mean - 1, mean + 1)
    )
    assert len(axes.collections) == collections
    assert ("<image" in svg) == (count > plots.MOST_POINTS)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_constant_targets(scale):
    same = np.full(20, scale)
    axes, _ = axes_of(lambda axes: plots.draw_predictions(axes, same, same, same, same))
    low, high = axes.get_xlim()
    assert low < scale < high


@pytest.mark.parametrize("count", [1, 300, 30_000])
def test_residual_histogram_is_a_density(rng, count):
    residuals = rng.standard_t(2, count)
    axes, _ = axes_of(lambda axes: plots.draw_residual_histogram(axes, residuals))
    area = sum(bar.get_width() * bar.get_height() for bar in axes.patches)
    assert area == pytest.approx(1.0)


def test_residuals_are_all_in_sight(rng):
    residuals = np.append(rng.normal(size=50), 40.0)
    axes, _ = axes_of(lambda axes: plots.draw_residuals(axes, np.arange(51.0), residuals))
    assert axes.get_ylim()[1] > 40.0


@pytest.mark.parametrize("count", [plots.MOST_POINTS, 50_000])
def test_pictures_of_many_rows_stay_small(rng, count):
    mean, residuals = rng.normal(size=(2, count))
    _, svg = axes_of(lambda axes: plots.draw_residuals(axes, mean, residuals))
    assert len(svg) < 150_000  # a third more in base64


# ----------------------------------------------------------------- inputs and functions


def test_relevance_has_the_largest_on_top():
    values = np.arange(50.0)
    names = [f"x{i}" for i in range(50)]
    axes, _ = axes_of(lambda axes: plots.draw_relevance(axes, names, values))
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(values, reverse=True)[: plots.MOST_NAMES]
    assert axes.get_yticklabels()[0].get_text() == "x49"
    low, high = axes.get_ylim()
    assert low > high


def test_levels_of_a_category():
    mean = np.array([1.0, 2.0, 3.0])
    levels = ["red", "a rather long colour name", "blue"]
    axes, svg = axes_of(
        lambda axes: plots.draw_levels(axes, levels, mean, quantiles(mean), "colour")
    )
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), mean)
    assert {"red", "blue", "colour"} <= set(texts(svg))


def test_rug_and_inducing_points_are_where_they_should_be():
    x = np.linspace(0.0, 1.0, 11)

    def draw(axes):
        plots.draw_bands(axes, x, x, quantiles(x), "x")
        plots.draw_rug(axes, np.array([-5.0, 0.25, 0.5]))
        plots.draw_inducing(axes, np.array([0.1, 0.9]))

    axes, _ = axes_of(draw)
    _, rug, inducing = axes.lines
    assert sorted(set(rug.get_xdata())) == [0.25, 0.5]
    assert inducing.get_xdata().tolist() == [0.1, 0.9]
    assert axes.get_xlim() == (0.0, 1.0)


# ------------------------------------------------------------------------------ dates


@pytest.mark.parametrize("days", [3, 40, 59, 420, 720, 900, 5_000])
def test_dates_of_a_small_panel_do_not_overlap(days):
    x = np.datetime64("2019-01-01") + np.arange(days).astype("timedelta64[D]")

    def draw(axes):
        plots.draw_bands(axes, x, np.zeros(days), quantiles(np.zeros(days)), "day")
        plots.space_dates(axes)

    axes, _ = axes_of(draw, width=2.8, height=2.3)
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
    assert len(boxes) >= 2
    for earlier, later in itertools.pairwise(sorted(boxes, key=lambda box: box.x0)):
        assert earlier.x1 < later.x0


@pytest.mark.parametrize("order", ["%Y-%m-%d", "%d.%m.%Y"])
@pytest.mark.parametrize("first", ["0001-01-01", "9999-12-01", "0001-06-15"])
@pytest.mark.parametrize("days", [30, 3_652_058])
def test_dates_of_the_first_and_the_last_year(first, days, order):
    """With room beside them, as along the whole fit; values beyond these years end there."""
    begin = int(np.datetime64(first, "us").astype(int))
    dates = Dates("days", begin, Writing(order), whole_days=True)
    x = dates.shown(np.linspace(-0.05 * days, 1.05 * days, 50))

    def draw(axes):
        plots.draw_bands(axes, x, np.zeros(50), quantiles(np.zeros(50)), "day")
        plots.draw_rug(axes, x)
        plots.space_dates(axes)

    axes, _ = axes_of(draw)
    assert axes.get_xlabel() == "day"


# ------------------------------------------------------------------------------ legends


def test_legends_are_outside_of_the_axes():
    """Where they cover no point, wherever the points are."""
    bins = Reliability(*np.full((2, 5), 0.9), np.full(5, 10))
    values = np.linspace(0.0, 1.0, 40)
    drawn = {
        "reliability": lambda axes: [
            class_plots.draw_reliability(axes, bins, np.zeros(5), np.ones(5)),
            plots.legend_above(axes),
        ],
        "chances": lambda axes: class_plots.draw_chances(axes, values, values > 0.5, ["a", "b"]),
        "roc": lambda axes: class_plots.draw_roc(axes, Roc(values, values)),
        "calibration": lambda axes: plots.draw_calibration(axes, values, values),
        "histogram": lambda axes: plots.draw_residual_histogram(axes, values),
    }
    for draw in drawn.values():
        axes, _ = axes_of(draw, height=4.0)
        assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1 - 1.0
