"""GPflow, as its documentation fits models: L-BFGS-B with a compiled objective."""

from typing import Any

import gpflow
import numpy as np

from benchmarks.startup import data
from benchmarks.startup.worker import Parts


def _kernel() -> Any:
    return gpflow.kernels.SquaredExponential(lengthscales=np.ones(4))


def _learned(model: Any) -> Any:
    loss, variables = model.training_loss, model.trainable_variables
    gpflow.optimizers.Scipy().minimize(loss, variables, options={"maxiter": 100})
    return model


def _regression(rows: int = data.ROWS) -> None:
    X, y, _ = data.table()
    _learned(gpflow.models.GPR((X[:rows], y[:rows, None]), _kernel()))


def first_regression(part: Parts) -> None:
    with part("first_regression"):
        _regression()


def second_regression(part: Parts) -> None:
    _regression()
    with part("second_regression"):
        _regression()


def first_sparse(part: Parts) -> None:
    X, y, _ = data.table()
    with part("first_sparse"):
        points = X[:50].copy()
        model = _learned(gpflow.models.SGPR((X, y[:, None]), _kernel(), points))
        [moment.numpy() for moment in model.predict_y(X)]


def first_classifier(part: Parts) -> None:
    X, _, labels = data.table()
    with part("first_classifier"):
        outputs = labels[:, None].astype(float)
        _learned(gpflow.models.VGP((X, outputs), _kernel(), gpflow.likelihoods.Bernoulli()))


def regressions(part: Parts) -> None:
    with part("20_regressions"):
        for rows in data.LENGTHS:
            _regression(rows)
