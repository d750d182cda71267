"""Displays of quality, relevance, learning, series, embeddings and images."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import cavity
from cavity import plots
from tests.plots import models
from tests.plots.models import NOISE, TWO, X, Y
from tests.tolerances import assert_close


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def moments(result):
    mean, var = map(np.asarray, result.posterior.marginals(X[:, None]))
    return mean, np.sqrt(var + NOISE)


def test_predictions_and_residuals_of_a_result_and_of_arrays():
    result = models.result()
    mean, std = moments(result)
    one = plots.predictions(result)
    other = plots.PredictionDisplay.from_predictions(Y, mean, std, name="y")
    for display in (one, other):
        assert_close(display.mean, mean)
        assert_close(display.observed, Y)
        assert_close(display.upper, mean + 1.959963984540054 * std)
        assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == (
            "observed y",
            "predicted y",
        )
    points = one.ax_.collections[-1].get_offsets()
    assert_close(points, np.column_stack([Y, mean]))
    one, other = plots.residuals(result), plots.ResidualDisplay.from_predictions(Y, mean, std)
    for display in (one, other):
        assert_close(display.standardised, (Y - mean) / std)
        assert_close(display.ax_.collections[-1].get_offsets()[:, 1], (Y - mean) / std)
    bare = plots.PredictionDisplay.from_predictions(Y, mean)
    assert len(bare.ax_.collections) == 1


def test_calibration_of_numbers_is_coverage():
    result = models.result()
    mean, std = moments(result)
    display = plots.calibration(result)
    at = int(np.flatnonzero(np.isclose(display.stated, 0.9))[0])
    inside = np.abs(Y - mean) <= 1.6448536269514722 * std
    assert_close(display.observed[at], inside.mean())
    assert_close(display.ax_.get_lines()[-1].get_ydata(), display.observed)
    again = plots.CalibrationDisplay.from_predictions(Y, mean, std)
    assert_close(again.observed, display.observed)


def test_calibration_of_classes_is_reliability():
    model, labels = models.classifier()
    display = plots.calibration(model, X[:, None], labels, target="high")
    chance = model.predict_proba(X[:, None])[:, 0]
    again = plots.CalibrationDisplay.from_predictions(labels == "high", chance, name="high")
    assert_close(again.stated, display.stated, "factorised")
    assert_close(again.observed, display.observed)
    assert display.ax_.get_xlabel() == "predicted probability of high"
    with pytest.raises(ValueError, match="there is no class 'hi'"):
        plots.calibration(model, X[:, None], labels, target="hi")
    for kind in (plots.predictions, plots.residuals):
        with pytest.raises(ValueError, match=r"classes high, low apart: cavity.plots.calibration"):
            kind(model, X[:, None], labels)


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"of one length, given \[3, 2, 2\]"):
        plots.ResidualDisplay.from_predictions([1, 2, 3], [1, 2], [1, 1])
    with pytest.raises(ValueError, match="y_pred holds probabilities"):
        plots.CalibrationDisplay.from_predictions([0, 1], [0.5, 1.5])
    with pytest.raises(ValueError, match="y_true has 1 entries, y_pred has 2"):
        plots.CalibrationDisplay.from_predictions([0], [0.5, 0.5])


def test_relevance_of_columns_and_of_dimensions():
    kernel = cavity.kernels.RBF(1.0, [0.5, 2.0])
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(NOISE))
    result = cavity.infer(model, TWO, Y)
    display = plots.relevance(result)
    assert_close(display.values[0], TWO.std(axis=0) / np.array([0.5, 2.0]))
    assert display.names == [["x0", "x1"]]
    assert display.ax_.get_xlabel() == "spread / lengthscale"
    bars = [bar.get_width() for bar in display.ax_.patches]
    assert_close(bars, np.sort(display.values[0])[::-1])
    with pytest.raises(ValueError, match="no parameter of its own for each column"):
        plots.relevance(models.result())
    model, _ = models.embedding()
    display = plots.relevance(model)
    assert_close(display.values[0], 100.0 * model.relevance_)


def test_evidence_of_an_estimator_is_in_the_units_of_the_data(tmp_path):
    model, _, _ = models.regressor()
    display = plots.evidence(model)
    assert_close(display.values, -np.array(model.history_))
    assert len(display.values) == model.n_iter_
    # log priors are what the two differ by, and those are not far from zero
    assert abs(display.values[-1] - model.log_evidence_) < 20.0
    model.save(tmp_path / "m.cavity")
    assert_close(plots.evidence(cavity.load(tmp_path / "m.cavity")).values, display.values)
    with pytest.raises(ValueError, match="nothing was learned from iteration to iteration"):
        plots.evidence(models.result())


def test_a_forecast_goes_on_from_the_last_rows():
    model = models.forecaster()
    display = plots.forecast(model, 6, n_past=10, y=Y[:3])
    assert_close(display.past, Y[-10:])
    assert_close(display.mean, model.predict(np.arange(1, 7)))
    ends = model.predict_interval(np.arange(1, 7))
    assert_close(display.values, ends.T)
    assert str(display.times[0])[:10] == "2022-01-01"
    assert str(display.past_times[-1])[:10] == "2021-12-01"
    assert_close(display.observed[:3], Y[:3])
    assert np.isnan(display.observed[3:]).all()
    assert display.ax_.get_ylabel() == "sales"
    line = display.ax_.get_lines()[1]
    assert_close(line.get_ydata(), display.mean)
    bare = plots.forecast(model.posterior_, 4)
    assert len(bare.past) == 0
    assert list(bare.times) == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="number of steps"):
        plots.forecast(model, [1, 2])
    with pytest.raises(ValueError, match="no labels of series"):
        plots.forecast(model, 3, series="a")


def test_an_embedding_is_drawn_where_its_points_are():
    model, table = models.embedding()
    display = plots.embedding(model, colour=list("ab" * 12))
    assert_close(display.mean, model.embedding_)
    drawn = np.concatenate([c.get_offsets() for c in display.ax_.collections[2:]])
    assert_close(np.sort(drawn[:, 0]), np.sort(model.embedding_[:, 0]))
    assert_close(plots.embedding(model.posterior_).mean, model.embedding_)
    some = plots.embedding(model, table[:5])
    assert_close(some.std, model.transform(table[:5], return_std=True)[1])
    with pytest.raises(ValueError, match="colour has 2 entries, there are 24 rows"):
        plots.embedding(model, colour=[1, 2])


def test_patches_are_those_that_speak_most_for_a_class():
    parts = cavity.kernels.Patches((4, 4), (2, 2))
    kernel = cavity.kernels.SumOver(parts, cavity.kernels.RBF())
    images = models.RNG.uniform(size=(12, 16))
    points = cavity.inducing.InBase(cavity.inducing.Points(images[:6, :4]))
    model = cavity.GP(kernel, cavity.likelihoods.Bernoulli(), points)
    result = cavity.infer(model, images, np.arange(12) % 2.0)
    display = plots.patches(result, n_patches=3)
    assert display.names == ("0", "1")
    assert display.pixels.shape == (2, 3, 2, 2, 1)
    assert np.all(np.diff(display.scores, axis=1) <= 0.0)
    assert_close(display.scores[0, 0], -plots.patches(result, n_patches=6).scores[1, -1])
    assert len(display.axes_) == 6
    assert display.axes_[3].get_ylabel() == "1"
    for kind in (plots.slices, plots.relevance, plots.function, plots.inducing_points):
        with pytest.raises(ValueError, match="columns of this model are pixels"):
            kind(result)
