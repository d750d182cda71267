"""Predictions of outputs in the units of the data, from a posterior of scaled outputs."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.learning.infer import one_blas_thread
from cavity.likelihoods.base import AbstractPredictive


@dataclasses.dataclass(frozen=True, eq=False)
class Predictions:
    """The predictive distribution of every output at every row, noise included.

    Attributes:
        mean: means, (n, P).
        std: standard deviations, (n, P).
    """

    mean: np.ndarray
    std: np.ndarray
    _scaled: AbstractPredictive
    _scale: np.ndarray

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log predictive densities, (n, P), in nats per unit of y, of outputs (n, P)."""
        with jax.enable_x64(True), one_blas_thread():
            scaled = (np.asarray(y, float) / self._scale).reshape(self._scaled.mean.shape)
            density = np.asarray(self._scaled.log_density(jnp.asarray(scaled)))
        return density.reshape(self.mean.shape) - np.log(self._scale)

    def quantiles(self, levels: Any) -> np.ndarray:
        """Quantiles, (n, P, Q), at Q probabilities."""
        levels = np.atleast_1d(np.asarray(levels, float))
        with jax.enable_x64(True), one_blas_thread():
            values = np.asarray(self._scaled.quantile(levels))
        values = values.reshape(len(levels), *self.mean.shape)
        return np.moveaxis(values * self._scale, 0, -1)


def predict_outputs(
    posterior: Any, scale: np.ndarray, X: np.ndarray, noise_variance: np.ndarray | None = None
) -> Predictions:
    """The predictive distribution of outputs in the units of the data.

    Args:
        posterior: of outputs that were divided by `scale`.
        scale: the divisor of each output, (P,).
        X: inputs, (n, D).
        noise_variance: known noise variance of each row, (n,), where the fit had them.

    Raises:
        ValueError: for unusable inputs.
    """
    rows = None if noise_variance is None else {"noise_variance": noise_variance}
    with jax.enable_x64(True), one_blas_thread():
        out = posterior.predict(np.asarray(X, float), rows=rows)
        shape = (len(X), len(scale))
        mean = np.asarray(out.mean).reshape(shape) * scale
        std = np.sqrt(np.asarray(out.var)).reshape(shape) * scale
    return Predictions(mean, std, out, scale)
