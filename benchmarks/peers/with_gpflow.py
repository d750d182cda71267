"""GPflow: see the package for what the functions are."""

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tf_keras

gpflow.config.set_default_float(np.float64)
Problem = dict[str, np.ndarray]


def kernel(p: Problem) -> Any:
    return gpflow.kernels.SquaredExponential(float(p["variance"]), p["lengthscale"])


def _model(p: Problem, method: str) -> Any:
    gpflow.config.set_default_jitter(float(p["jitter"]))
    if method == "latent":
        means, points = (p["y"], p["X"], p["variances"], kernel(p)), p["Z"].copy()
        model = gpflow.models.BayesianGPLVM(*means, inducing_variable=points)
        model.likelihood.variance.assign(float(p["noise"]))
        return model
    data, noise = (p["X"], p["y"][:, None]), float(p["noise"])
    if method == "exact":
        return gpflow.models.GPR(data, kernel(p), noise_variance=noise)
    kind = {"vfe": gpflow.models.SGPR, "fitc": gpflow.models.GPRFITC}[method]
    return kind(data, kernel(p), inducing_variable=p["Z"].copy(), noise_variance=noise)


def evaluation(p: Problem, method: str) -> Callable[[], float]:
    return value_and_gradient(_model(p, method))


def value_and_gradient(model: Any) -> Callable[[], float]:
    """A function that computes a model's value and gradient and gives the value."""
    variables = model.trainable_variables

    @tf.function
    def both() -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = model.training_loss()
        return loss, tape.gradient(loss, variables)

    def call() -> float:
        loss, gradient = both()
        for part in gradient:
            part.numpy()
        return -float(loss.numpy())

    return call


def step(p: Problem) -> Callable[[], float]:
    gpflow.config.set_default_jitter(float(p["jitter"]))
    likelihood = gpflow.likelihoods.Gaussian(float(p["noise"]))
    Z, N = p["Z"].copy(), len(p["X"])
    model = gpflow.models.SVGP(kernel(p), likelihood, inducing_variable=Z, num_data=N)
    variables, adam = model.trainable_variables, tf_keras.optimizers.Adam(float(p["rate"]))
    batches = iter(p["batches"])

    @tf.function
    def move(X: Any, y: Any) -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = model.training_loss((X, y))
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def call() -> float:
        rows = next(batches)
        X, y = tf.constant(p["X"][rows]), tf.constant(p["y"][rows, None])
        return -float(move(X, y).numpy())

    return call


def prediction(p: Problem, method: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    posterior = _model(p, method).posterior()
    predict = tf.function(posterior.predict_f)
    X = tf.constant(p["X_test"])

    def call() -> tuple[np.ndarray, np.ndarray]:
        mean, var = predict(X)
        return mean.numpy(), var.numpy()

    return call


def fit(
    p: Problem, record: Callable[[float], bool], iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    model = _model(p, "vfe")

    def after(intermediate_result: Any) -> None:
        if record(-intermediate_result.fun):
            raise StopIteration

    gpflow.optimizers.Scipy().minimize(
        model.training_loss,
        model.trainable_variables,
        callback=after,
        options={"maxiter": iterations},
    )
    mean, var = model.predict_y(p["X_test"])
    return mean.numpy(), var.numpy()
