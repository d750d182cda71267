"""scikit-learn: kernels with a lengthscale for each column, and no restarts, as by default."""

from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.startup import data
from benchmarks.startup.worker import Parts

# One for each column, which the hint of their class leaves out.
LENGTHSCALES: Any = np.ones(4)


def _regression(rows: int = data.ROWS) -> None:
    X, y, _ = data.table()
    kernel = ConstantKernel() * RBF(LENGTHSCALES) + WhiteKernel()
    GaussianProcessRegressor(kernel, normalize_y=True).fit(X[:rows], y[:rows])


def _classifier(rows: int = data.ROWS) -> None:
    X, _, labels = data.table()
    GaussianProcessClassifier(ConstantKernel() * RBF(LENGTHSCALES)).fit(X[:rows], labels[:rows])


def first_regression(part: Parts) -> None:
    with part("first_regression"):
        _regression()


def second_regression(part: Parts) -> None:
    _regression()
    with part("second_regression"):
        _regression()


def first_classifier(part: Parts) -> None:
    with part("first_classifier"):
        _classifier()


def regressions(part: Parts) -> None:
    with part("20_regressions"):
        for rows in data.LENGTHS:
            _regression(rows)


def classifiers(part: Parts) -> None:
    with part("20_classifiers"):
        for rows in data.LENGTHS:
            _classifier(rows)
