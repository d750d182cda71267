"""GPflux: see the package for what the functions are."""

import warnings
from collections.abc import Callable
from typing import Any

import gpflow
import gpflux
import numpy as np
import tensorflow as tf
from gpflow.keras import tf_keras

gpflow.config.set_default_float(np.float64)
warnings.filterwarnings("ignore", module="gpflux")
Problem = dict[str, np.ndarray]


def _layer(p: Problem, variance: str, which: slice, mean: Any, samples: int | None) -> Any:
    """Functions that share a kernel and inducing points, with the q of some of the problem's."""
    kernel = gpflow.kernels.SquaredExponential(float(p[variance]), p["lengthscale"])
    helpers, q_mean, q_root = gpflux.helpers, p["q_mean"][which], p["q_root"][which]
    shape: dict[str, Any] = {"output_dim": len(q_mean)}
    points = {"num_inducing": len(p["Z"]), "input_dim": p["Z"].shape[1], "z_init": p["Z"].copy()}
    layer = gpflux.layers.GPLayer(
        helpers.construct_basic_kernel(kernel, share_hyperparams=True, **shape),
        helpers.construct_basic_inducing_variables(share_variables=True, **points, **shape),
        num_data=len(p["X"]),
        mean_function=mean,
        num_samples=samples,
    )
    layer.q_mu.assign(q_mean.T)
    layer.q_sqrt.assign(q_root)
    return layer


def deep(p: Problem, method: str) -> Callable[[], float]:
    gpflow.config.set_default_jitter(float(p["jitter"]))
    samples, means = {"two": 2}.get(method), gpflow.mean_functions
    layers = [
        _layer(p, "inner_variance", slice(0, -1), means.Identity(), samples),
        _layer(p, "variance", slice(-1, None), means.Zero(), None),
    ]
    likelihood = gpflow.likelihoods.Gaussian(float(p["noise"]))
    model = gpflux.models.DeepGP(layers, likelihood)
    variables, adam = model.trainable_variables, tf_keras.optimizers.Adam(float(p["rate"]))
    batches = iter(p["batches"])

    @tf.function
    def both(X: Any, y: Any) -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = -model.elbo((X, y))
        gradient = tape.gradient(loss, variables)
        if method == "step":
            adam.apply_gradients(zip(gradient, variables, strict=True))
        return loss, gradient

    def call() -> float:
        rows = next(batches) if method == "step" else p["batches"][0]
        loss, gradient = both(tf.constant(p["X"][rows]), tf.constant(p["y"][rows, None]))
        for part in gradient:
            part.numpy()
        return -float(loss.numpy())

    return call
