"""Small models for tests of displays, at fixed parameters."""

import functools

import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods, means

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 4.0, 24)
Y = 3.0 + np.sin(2.0 * X) + 0.2 * RNG.standard_normal(24)
TWO = np.column_stack([X, RNG.uniform(-1.0, 1.0, 24)])
NOISE = 0.09


@functools.cache
def result(points=None, columns=1, outputs=1):
    """Inference of a sum of kernels with Gaussian noise."""
    where = None if points is None else inducing.Points(TWO[::points, :columns])
    kernel = kernels.RBF(0.8, 0.7) + kernels.Linear(0.2)
    model = cavity.GP(kernel, likelihoods.Gaussian(NOISE), where, means.Constant(3.0))
    y = Y if outputs == 1 else np.column_stack([Y, -Y])
    return cavity.infer(model, TWO[:, :columns], y)


@functools.cache
def counts():
    """Inference of counts."""
    model = cavity.GP(kernels.RBF(0.5, 1.0), likelihoods.Poisson())
    return cavity.infer(model, X[:, None], np.round(Y))


@functools.cache
def regressor():
    """An estimator of a column with a name, from where it starts."""
    import pandas as pd

    frame, y = pd.DataFrame({"age": X}), pd.Series(100.0 * Y, name="pressure")
    return cavity.GPRegressor("rbf + linear").fit(frame, y), frame, y


@functools.cache
def classifier():
    """An estimator of two classes."""
    labels = np.where(Y > 3.0, "high", "low")
    return cavity.GPClassifier(max_iterations=0).fit(X[:, None], labels), labels


@functools.cache
def forecaster():
    """A forecaster of a series with dates."""
    import pandas as pd

    index = pd.date_range("2020-01-01", periods=24, freq="MS")
    series = pd.Series(Y, index=index, name="sales")
    return cavity.GPForecaster(1, n_inducing=5, max_iterations=0, propagation=20).fit(series)


@functools.cache
def embedding():
    """An embedding of three columns."""
    table = np.column_stack([X, X**2, np.sin(X)])
    return cavity.GPEmbedding(n_inducing=6, max_iterations=0).fit(table), table
