"""Pictures: what is drawn is what was given, whatever the data are like."""

import io
import itertools

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from cavity import drawing
from cavity.columns.dates import Dates, Writing
from tests.drawing.figures import axes_of, quantiles, texts

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
    assert drawing.label(name) == shown


def test_labels_differ():
    long = [f"a long name whose number {i} is in its middle, of some" for i in range(3)]
    found = drawing.labels(["y", *long], 30)
    assert found[0] == "y"
    assert len(set(found)) == 4
    assert all(len(text) <= 30 for text in found)


# --------------------------------------------------------------------------- calibration


def test_calibration_draws_what_it_is_given():
    levels, observed = np.array([0.25, 0.5, 0.75]), np.array([0.2, 0.6, 0.7])
    axes, svg = axes_of(
        lambda axes: drawing.calibration(axes, levels, observed, levels - 0.1, levels + 0.1)
    )
    ideal, model = axes.lines
    np.testing.assert_array_equal(ideal.get_xdata(), ideal.get_ydata())
    np.testing.assert_array_equal(model.get_xydata(), np.stack([levels, observed], axis=1))
    assert {"ideal", "this model", "chance alone (95 %)"} <= set(texts(svg))


def test_pit_is_a_density():
    values = np.random.default_rng(0).uniform(size=500)
    axes, _ = axes_of(
        lambda axes: drawing.probability_transform(axes, np.append(values, [0.0, 1.0]))
    )
    heights = [bar.get_height() for bar in axes.patches]
    assert np.mean(heights) == pytest.approx(1.0)


# ------------------------------------------------------------- predictions and residuals


@pytest.mark.parametrize(
    ("count", "collections"),
    [(1, 2), (drawing.MOST_BARS, 2), (drawing.MOST_BARS + 1, 1), (drawing.MOST_POINTS + 1, 1)],
)
def test_predictions_by_the_number_of_rows(rng, count, collections):
    observed = rng.normal(size=count)
    mean = observed + 0.1 * rng.normal(size=count)
    axes, svg = axes_of(lambda axes: drawing.predictions(axes, observed, mean, mean - 1, mean + 1))
    assert len(axes.collections) == collections
    assert ("<image" in svg) == (count > drawing.MOST_POINTS)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_constant_targets(scale):
    same = np.full(20, scale)
    axes, _ = axes_of(lambda axes: drawing.predictions(axes, same, same, same, same))
    low, high = axes.get_xlim()
    assert low < scale < high


@pytest.mark.parametrize("count", [1, 300, 30_000])
def test_residual_histogram_is_a_density(rng, count):
    residuals = rng.standard_t(2, count)
    axes, _ = axes_of(lambda axes: drawing.residual_histogram(axes, residuals))
    area = sum(bar.get_width() * bar.get_height() for bar in axes.patches)
    assert area == pytest.approx(1.0)


def test_residuals_are_all_in_sight(rng):
    residuals = np.append(rng.normal(size=50), 40.0)
    axes, _ = axes_of(lambda axes: drawing.residuals(axes, np.arange(51.0), residuals))
    assert axes.get_ylim()[1] > 40.0


@pytest.mark.parametrize("count", [drawing.MOST_POINTS, 50_000])
def test_pictures_of_many_rows_stay_small(rng, count):
    mean, residuals = rng.normal(size=(2, count))
    _, svg = axes_of(lambda axes: drawing.residuals(axes, mean, residuals))
    assert len(svg) < 150_000  # a third more in base64


# ----------------------------------------------------------------- inputs and functions


def test_relevance_has_the_largest_on_top():
    values = np.arange(50.0)
    names = [f"x{i}" for i in range(50)]
    axes, _ = axes_of(lambda axes: drawing.relevance(axes, names, values))
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(values, reverse=True)[: drawing.MOST_NAMES]
    assert axes.get_yticklabels()[0].get_text() == "x49"
    low, high = axes.get_ylim()
    assert low > high


def test_levels_of_a_category():
    mean = np.array([1.0, 2.0, 3.0])
    levels = ["red", "a rather long colour name", "blue"]
    axes, svg = axes_of(lambda axes: drawing.levels(axes, levels, mean, quantiles(mean)))
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), mean)
    assert {"red", "blue"} <= set(texts(svg))


def test_rug_and_inducing_points_are_where_they_should_be():
    x = np.linspace(0.0, 1.0, 11)

    def draw(axes):
        drawing.bands(axes, x, x, quantiles(x))
        drawing.rug(axes, np.array([-5.0, 0.25, 0.5]))
        drawing.inducing_points(axes, np.array([0.1, 0.9]))

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
        drawing.bands(axes, x, np.zeros(days), quantiles(np.zeros(days)))
        drawing.space_dates(axes)

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
        drawing.bands(axes, x, np.zeros(50), quantiles(np.zeros(50)))
        drawing.rug(axes, x)
        drawing.space_dates(axes)

    axes, _ = axes_of(draw)
    assert axes.lines[0].get_xdata().size == 50


# ------------------------------------------------------------------------------ legends


def test_legends_are_outside_of_the_axes():
    """Where they cover no point, wherever the points are."""
    bins = np.full(5, 0.9)
    values = np.linspace(0.0, 1.0, 40)
    drawn = {
        "reliability": lambda axes: [
            drawing.reliability(axes, bins, bins, np.zeros(5), np.ones(5)),
            drawing.legend_above(axes),
        ],
        "chances": lambda axes: drawing.class_histograms(axes, values, values > 0.5, ["a", "b"]),
        "roc": lambda axes: drawing.roc(axes, values, values),
        "calibration": lambda axes: drawing.calibration(axes, values, values),
        "histogram": lambda axes: drawing.residual_histogram(axes, values),
    }
    for draw in drawn.values():
        axes, _ = axes_of(draw, height=4.0)
        assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1 - 1.0


# ---------------------------------------------------------------------------- confusion


def test_a_confusion_has_true_classes_down_and_shares_of_these():
    counts = np.array([[3, 1], [0, 6]])
    axes, _ = axes_of(lambda axes: drawing.confusion(axes, counts, ["a", "b"]))
    cells = {text.get_position()[::-1]: text.get_text().split("\n") for text in axes.texts}
    assert cells == {
        (0, 0): ["3", "75 %"],
        (0, 1): ["1", "25 %"],
        (1, 0): ["0", "0 %"],
        (1, 1): ["6", "100 %"],
    }
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "true class")


# -------------------------------------------------------------------- of every picture

X = np.linspace(0.0, 1.0, 6)
SHARES = np.stack([X, 1.0 - X], axis=1)
DRAWN = {
    "bands": (X, X, quantiles(X)),
    "calibration": (X, X),
    "class_areas": (X, SHARES, ["a", "b"]),
    "class_bars": (list("uvwxyz"), SHARES, ["a", "b"]),
    "class_histograms": (X, X > 0.5, ["a", "b"]),
    "coefficients": (list("uvwxyz"), X, X - 1.0, X + 1.0, X > 0.5),
    "confusion": (np.array([[3, 1], [0, 4]]), ["a", "b"]),
    "data": (X, X),
    "embedding": (SHARES, SHARES, list("aabbbc"), "colour"),
    "forecast": (X, X, quantiles(X), np.where(X > 0.5, np.nan, X), "y"),
    "inducing_points": (X,),
    "levels": (list("uvwxyz"), X, quantiles(X)),
    "moves": (SHARES, SHARES, SHARES, np.array([3])),
    "pixels": (np.ones((2, 3, 1)),),
    "places": (np.ones((2, 3)), (4, 5), (3, 3)),
    "point_gains": (X, X),
    "predictions": (X, X, X - 1.0, X + 1.0),
    "probability_transform": (X,),
    "relevance": (list("uvwxyz"), X),
    "reliability": (X, X),
    "residual_histogram": (X,),
    "residuals": (X, X),
    "roc": (X, X),
    "rug": (X,),
    "states": (SHARES, SHARES, np.array([3])),
    "transition": (X, X, X, X),
}
WORDS = {"label", "labels", "legend_above", "space_dates"}


def test_every_picture_is_among_them():
    assert {name for name in drawing.__all__ if name.islower()} == DRAWN.keys() | WORDS


@pytest.mark.parametrize("name", DRAWN)
def test_the_callers_axes_are_drawn_on_in_the_callers_style(name):
    """And whatever the caller sets afterwards stands."""
    with matplotlib.rc_context({"font.size": 17.0, "axes.grid": True}):
        axes = Figure().subplots()
        before = len(axes.get_children())
        assert getattr(drawing, name)(axes, *DRAWN[name]) is None
        axes.set(title="mine", xlabel="my own")
        axes.figure.savefig(io.BytesIO(), format="svg")
    assert len(axes.get_children()) > before
    assert (axes.get_title(), axes.get_xlabel()) == ("mine", "my own")
    assert axes.xaxis.label.get_size() in (17.0, 9.0)  # words below an image are small


def test_texts_have_a_colour_each_and_numbers_a_scale():
    points = np.random.default_rng(0).normal(size=(40, 2))
    texts = [f"kind {i % 12}" for i in range(39)] + [None]
    axes, _ = axes_of(lambda axes: drawing.embedding(axes, points, None, texts, "kind"))
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert shown == ["missing", *(f"kind {i}" for i in (0, 1, 2, 10, 11, 3, 4, 5, 6)), "others"]
    assert len(axes.collections) == 13
    numbers = [*map(float, range(39)), None]
    axes, _ = axes_of(lambda axes: drawing.embedding(axes, points, None, numbers, "size"))
    missing, scaled = axes.collections
    assert len(missing.get_offsets()) == 1
    np.testing.assert_array_equal(scaled.get_array(), np.arange(39.0))
    assert axes.figure.axes[1].get_ylabel() == "size"


def test_one_dimension_is_drawn_by_rank():
    mean = np.array([[3.0], [1.0], [2.0]])
    axes, _ = axes_of(lambda axes: drawing.embedding(axes, mean, np.ones((3, 1))))
    points = axes.collections[-1].get_offsets()
    np.testing.assert_array_equal(points, [[3.0, 3.0], [1.0, 1.0], [2.0, 2.0]])


def test_no_line_joins_two_series():
    states = np.arange(8.0).reshape(4, 2)
    axes, _ = axes_of(lambda axes: drawing.states(axes, states, states, np.array([2])))
    path = axes.lines[0].get_xdata()
    np.testing.assert_array_equal(path, [0.0, 2.0, np.nan, 4.0, 6.0])


def test_places_are_in_the_middle_of_their_patches():
    """Patches of 3 x 3 pixels, two apart, in an image of 5 x 7: middles at 1, 3 and 5."""
    values = np.arange(6.0).reshape(2, 3)
    axes, _ = axes_of(lambda axes: drawing.places(axes, values, (5, 7), (3, 3), stride=2))
    left, right, bottom, top = axes.images[0].get_extent()
    middles = left + (right - left) / 3 * (np.arange(3) + 0.5)
    np.testing.assert_allclose(middles, [1.0, 3.0, 5.0])
    np.testing.assert_allclose(top + (bottom - top) / 2 * (np.arange(2) + 0.5), [1.0, 3.0])
