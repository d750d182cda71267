"""Several series with the same dynamics: labels in fit, an axis of series in what follows."""

import warnings

import jax
import numpy as np
import pandas as pd
import pytest

import cavity
from tests.estimators.test_forecaster import SMALL, system
from tests.tolerances import assert_close

pytestmark = pytest.mark.x32

SERIES = [system(30, seed=1), system(24, seed=2)]
LABELS = ["a"] * 24 + ["b"] * 18
Y = np.concatenate([y[:-6] for y, _ in SERIES])
U = np.concatenate([u[:-6] for _, u in SERIES])
NEXT_Y, NEXT_U = (np.stack([s[i][-6:] for s in SERIES]) for i in (0, 1))


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cavity.GPForecaster(**SMALL).fit(Y, U, series=LABELS)


@pytest.mark.slow
def test_forecasts_have_an_axis_of_series(fitted):
    """They are those of the posterior, from the last state of each series."""
    assert fitted.series_ == ("a", "b")
    assert fitted.states_.shape == (42, 2)
    mean = fitted.predict([1, 6, 2], NEXT_U)
    assert mean.shape == (2, 3)
    with jax.enable_x64(True):
        u = (NEXT_U - U.mean()) / U.std()
        future = fitted.posterior_.forecast(6, u, paths=64, key=jax.random.key(fitted._seed))
        expected = future.mean[:, [0, 5, 1], 0]
    assert_close(mean, Y.mean() + Y.std() * expected)
    assert fitted.predict_interval([1, 2], NEXT_U).shape == (2, 2, 2)
    assert fitted.predict_quantiles([1], NEXT_U, [0.1, 0.5, 0.9]).shape == (2, 1, 3)
    density = fitted.log_predictive_density(NEXT_Y, NEXT_U)
    assert density.shape == (2, 6)
    assert np.all(np.isfinite(density))
    # the next rows are told better than by the mean of all
    error = fitted.predict([1, 2], NEXT_U) - NEXT_Y[:, :2]
    assert np.sqrt(np.mean(error**2)) < Y.std()


def test_one_series_with_a_label_has_the_axis_too():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = SMALL | {"max_iterations": 0}
        labelled = cavity.GPForecaster(**settings).fit(Y[:24], U[:24], series=["a"] * 24)
        plain = cavity.GPForecaster(**settings).fit(Y[:24], U[:24])
    assert_close(labelled.predict(3, NEXT_U[:1]), plain.predict(3, NEXT_U[0])[None])


def test_what_does_not_go_together_is_said(fitted):
    small = cavity.GPForecaster(**SMALL)
    times = pd.date_range("2024-01-01", periods=42)
    cases = {
        "one label per row, 42 of them, given 41": LABELS[1:],
        "series is missing in row 0": [None, *LABELS[1:]],
        "rows of series 'a' do not follow each other": LABELS[1:] + ["a"],
        "every series has one row": list(range(42)),
    }
    for match, series in cases.items():
        with pytest.raises(ValueError, match=match):
            small.fit(Y, U, series=series)
    gap = pd.Series(Y, index=times.delete(5).append(times[-1:] + pd.Timedelta("1D")))
    with pytest.raises(ValueError, match="no rows between 2024-01-05"):
        small.fit(gap, U, series=LABELS)
    with pytest.raises(ValueError, match=r"had 2 series, so X must .* shape \(2, rows, 1\)"):
        fitted.predict(1, NEXT_U[0])
    with pytest.raises(ValueError, match="X has 6 rows, the last horizon needs 7"):
        fitted.predict(7, NEXT_U)
    with pytest.raises(ValueError, match="X is needed here"):
        fitted.predict(1)
    with pytest.raises(ValueError, match="call fit with all rows"):
        fitted.update(NEXT_Y, NEXT_U)


@pytest.mark.slow
def test_every_series_has_times_of_its_own():
    """Their times start again with every series, by themselves or as a level of an index."""
    times = pd.date_range("2024-01-01", periods=24)
    stacked = times.append(times[:18])
    levels = pd.MultiIndex.from_arrays([LABELS, stacked])
    for index in (stacked, levels):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forecaster = cavity.GPForecaster(**(SMALL | {"max_iterations": 0}))
            forecaster.fit(pd.Series(Y, index=index), series=LABELS)
        assert forecaster.predict(2).shape == (2, 1)
