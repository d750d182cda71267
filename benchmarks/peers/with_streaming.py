"""The scripts that Bui, Nguyen and Turner published with their paper (2017), on GPflow.

`make bench-environments` puts them beside the environments. See the package for the functions.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(os.environ.get("CAVITY_PEERS", Path(__file__).parents[2] / ".bench"))
sys.path.insert(0, str(FOLDER / "streaming_sparse_gp" / "code"))

import gpflow  # noqa: E402
import osgpr  # noqa: E402
import osvgpc  # noqa: E402
import sgpr  # noqa: E402

from benchmarks.peers.with_gpflow import kernel, value_and_gradient  # noqa: E402
from benchmarks.peers.worker import scores  # noqa: E402

Problem = dict[str, np.ndarray]
POWERS = {"vfe": 0.0, "power": 0.5}


def _summary(model: Any, Z: np.ndarray, jitter: float) -> tuple[np.ndarray, ...]:
    """Mean and covariance of the inducing variables, and their prior covariance."""
    mean, covariance = model.predict_f(Z, full_cov=True)
    covariance = np.reshape(covariance, (len(Z), len(Z))) + jitter * np.eye(len(Z))
    return mean.numpy(), covariance, model.kernel(Z).numpy()


def past(p: Problem, method: str) -> Callable[[], float]:
    """Value and gradient of the evidence of new rows, after those of before."""
    before, noise = (p["X_before"], p["y_before"][:, None]), float(p["noise"])
    power = POWERS[method]
    if power:
        earlier = sgpr.SGPR_PEP(before, kernel(p), p["Z_before"], power)
    else:
        earlier = gpflow.models.SGPR(before, kernel(p), p["Z_before"])
    earlier.likelihood.variance.assign(noise)
    told = (*_summary(earlier, p["Z_before"], 0.0), p["Z_before"], p["Z"].copy())
    data = (p["X"], p["y"][:, None])
    if power:
        model = osgpr.OSGPR_PEP(data, kernel(p), *told, power)
    else:
        model = osgpr.OSGPR_VFE(data, kernel(p), *told)
    model.likelihood.variance.assign(noise)
    return value_and_gradient(model)


def stream(p: Problem) -> dict[str, float]:
    """Batches learned as in the published scripts; test error, NLPD and seconds.

    Each model starts from four fifths of the old points of labels, or seven tenths of those of
    other outputs, with new rows for the rest; of labels from unit parameters, of other outputs
    from those of the batch before.
    """
    random, labels = np.random.default_rng(int(p["seed"])), bool(p["labels"])
    share, jitter = (0.8, 1e-4) if labels else (0.7, 0.0)
    begun, told, model = time.perf_counter(), (), None
    for part in np.array_split(np.arange(len(p["X"])), int(p["batches"])):
        data = (p["X"][part], p["y"][part, None])
        Z = p["Z"].copy()
        if told:
            old = told[-1]
            kept = random.permutation(len(old))[: int(share * len(old))]
            new = random.permutation(len(part))[: len(old) - len(kept)]
            Z = np.vstack((old[kept], data[0][new]))
        if labels:
            model, loss = _of_labels(data, told, Z)
        else:
            model, loss = _of_numbers(data, told, Z, model)
        limits = {"maxiter": 2000}
        gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables, options=limits)
        Z = model.inducing_variable.Z.numpy()
        told = (*_summary(model, Z, jitter), Z)
    seconds = time.perf_counter() - begun
    found = _label_scores(model, p) if labels else _number_scores(model, p)
    return found | {"spent": seconds}


def _of_labels(data: Any, told: tuple, Z: np.ndarray) -> tuple[Any, Any]:
    """A classifier after what was told, from unit parameters, and its loss."""
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.ones(Z.shape[1]))
    likelihood = gpflow.likelihoods.Bernoulli()
    if told:
        model = osvgpc.OSVGPC(data, kernel, likelihood, *told, Z)
        return model, model.training_loss
    model = gpflow.models.SVGP(kernel, likelihood, Z)
    return model, model.training_loss_closure(data)


def _of_numbers(data: Any, told: tuple, Z: np.ndarray, before: Any) -> tuple[Any, Any]:
    """A regression after what was told, from the parameters of before, and its loss."""
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(Z.shape[1], 2.0))
    noise = 0.1
    if before is not None:
        kernel.variance.assign(before.kernel.variance.numpy())
        kernel.lengthscales.assign(before.kernel.lengthscales.numpy())
        noise = before.likelihood.variance.numpy()
    if told:
        model = osgpr.OSGPR_VFE(data, kernel, *told, Z)
    else:
        model = gpflow.models.SGPR(data, kernel, Z)
    model.likelihood.variance.assign(noise)
    return model, model.training_loss


def _label_scores(model: Any, p: Problem) -> dict[str, float]:
    """Share of wrong labels, and mean negative log predictive density."""
    chance = np.clip(model.predict_y(p["X_test"])[0].numpy()[:, 0], 1e-12, 1.0 - 1e-12)
    labels = p["y_test"] > 0.5
    density = np.where(labels, np.log(chance), np.log1p(-chance))
    return {"error": float(np.mean((chance > 0.5) != labels)), "nlpd": float(-np.mean(density))}


def _number_scores(model: Any, p: Problem) -> dict[str, float]:
    """RMSE, and mean negative log predictive density."""
    mean, var = (np.ravel(x) for x in model.predict_f(p["X_test"]))
    var = var + float(model.likelihood.variance.numpy())
    density, rmse = scores(mean, var, p["y_test"])
    return {"error": rmse, "nlpd": -density}
