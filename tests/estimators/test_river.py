"""Estimators in streams, through river's wrapper of scikit-learn."""

import numpy as np
import pytest

import cavity

compat = pytest.importorskip("river.compat", reason="river is not installed")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings(
    "ignore:not converged", "ignore:X does not have valid feature names"
)
RANDOM = np.random.default_rng(4)
X = RANDOM.uniform(-3.0, 3.0, (40, 1))
Y = np.sin(X[:, 0]) + 0.1 * RANDOM.normal(size=40)
FRAME = pd.DataFrame(X, columns=["x"])
SETTINGS = {"n_inducing": 8, "max_iterations": 10, "random_state": 0}


def test_a_stream_of_numbers_is_that_of_partial_fit():
    stream = compat.convert_sklearn_to_river(cavity.GPRegressor(**SETTINGS))
    assert stream.predict_one({"x": 0.0}) == 0
    stream.learn_many(FRAME[:20], pd.Series(Y[:20]))
    stream.learn_many(FRAME[20:38], pd.Series(Y[20:38]))
    own = cavity.GPRegressor(**SETTINGS).partial_fit(FRAME[:20], Y[:20])
    own.partial_fit(FRAME[20:38], Y[20:38])
    expected = own.predict(FRAME[38:])
    np.testing.assert_allclose(stream.predict_many(FRAME[38:]), expected)
    np.testing.assert_allclose(stream.predict_one({"x": X[38, 0]}), expected[0])
    stream.learn_one({"x": X[38, 0]}, Y[38])
    assert stream.estimator.n_rows_ == 39


@pytest.mark.slow
def test_a_stream_of_labels_is_that_of_partial_fit():
    labels = np.where(Y > 0.0, "up", "down")
    model = cavity.GPClassifier(**SETTINGS)
    stream = compat.convert_sklearn_to_river(model, classes=["down", "up"])
    stream.learn_many(FRAME[:20], pd.Series(labels[:20]))
    stream.learn_many(FRAME[20:], pd.Series(labels[20:]))
    found = [stream.predict_one({"x": x}) for x in (-1.5, 1.5)]
    assert found == ["down", "up"]
    chances = stream.predict_proba_one({"x": 1.5})
    assert chances["up"] > 0.8
    np.testing.assert_allclose(sum(chances.values()), 1.0)
