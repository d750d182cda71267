"""GPy: see the package for what the functions are."""

import contextlib
from collections.abc import Callable
from typing import Any

import GPy
import numpy as np
from GPy.inference import latent_function_inference as inference
from paramz import ObsAr

Problem = dict[str, np.ndarray]
SPARSE = {"vfe": inference.VarDTC, "fitc": inference.FITC, "power": lambda: inference.PEP(0.5)}


def _kernel(p: Problem) -> Any:
    parts = {"variance": float(p["variance"]), "lengthscale": p["lengthscale"], "ARD": True}
    return GPy.kern.RBF(p["X"].shape[1], **parts)


def _model(p: Problem, method: str) -> Any:
    X, y, noise = p["X"], p["y"][:, None], float(p["noise"])
    if method == "exact":
        return GPy.models.GPRegression(X, y, _kernel(p), noise_var=noise)
    way = SPARSE[method]()
    way.const_jitter = float(p["jitter"])
    likelihood = GPy.likelihoods.Gaussian(variance=noise)
    Z = p["Z"].copy()
    return GPy.core.SparseGP(X, y, Z, _kernel(p), likelihood, inference_method=way)


def evaluation(p: Problem, method: str) -> Callable[[], float]:
    """Points alternate by rounding errors, since results at the last one are kept."""
    model = _model(p, method)
    start = np.array(model.optimizer_array)
    points = [start, start + 1e-12]

    def call() -> float:
        points.reverse()
        return -float(model._objective_grads(points[0])[0])

    return call


def classify(p: Problem, method: str) -> Callable[[], float]:
    """`sparse` is EP under the DTC prior, another approximation than cavity's."""
    way = inference.EP() if method == "full" else inference.EPDTC()
    kernel, likelihood = _kernel(p), GPy.likelihoods.Bernoulli()
    X, labels = ObsAr(p["X"]), ObsAr(p["labels"][:, None])

    def call() -> float:
        way.reset()
        if method == "full":
            return float(np.squeeze(way.inference(kernel, X, likelihood, labels)[1]))
        found = way.inference(kernel, X, p["Z"], likelihood, labels)
        return float(np.squeeze(found[1]))

    return call


def prediction(p: Problem, method: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    model = _model(p, method)
    return lambda: model.predict_noiseless(p["X_test"])


def fit(
    p: Problem, record: Callable[[float], bool], iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    model = _model(p, "vfe")
    evaluate, best = model._objective_grads, [np.inf]

    def watched(x: np.ndarray) -> Any:
        value, slope = evaluate(x)
        best[0] = min(best[0], float(value))
        if record(-best[0]):
            raise TimeoutError
        return value, slope

    model._objective_grads = watched
    with contextlib.suppress(TimeoutError):
        model.optimize("lbfgsb", max_iters=iterations)
    return model.predict(p["X_test"])
