"""Predictions of outputs in the units of the data, from a posterior of scaled outputs."""

import dataclasses
import reprlib
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from cavity.learning.double_precision import in_double
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import HasRoughDensity, capability
from cavity.likelihoods.predictive.base import AbstractPredictive
from cavity.likelihoods.predictive.numerical import NumericalPredictive, numerical_predictive
from cavity.likelihoods.support import Support
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.chunking import padded_size
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array


@dataclasses.dataclass(frozen=True, eq=False)
class Predictions:
    """The predictive distribution of every output at every row, noise included.

    Attributes:
        mean: means, (n, P).
        std: standard deviations, (n, P); infinite where there is none.
        scaled: the distribution of the outputs divided by `scale`; of a padded number of rows,
            so that the programs of predictions are few.
        scale: the divisor of each output, (P,).
        likelihood: of the model.
    """

    mean: np.ndarray
    std: np.ndarray
    scaled: AbstractPredictive
    scale: np.ndarray
    likelihood: AbstractLikelihood

    @in_double
    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log predictive densities, (n, P), in nats per unit of y, of outputs (n, P)."""
        scaled = self._padded(np.asarray(y, float).reshape(self.mean.shape) / self.scale)
        density = np.asarray(self.scaled.log_density(jnp.asarray(scaled)))
        return self._cut(density) - np.log(self.scale)

    @in_double
    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        """Quantiles, (n, P, Q), at Q probabilities."""
        levels = np.atleast_1d(np.asarray(levels, float))
        values = np.asarray(self.scaled.quantile(jnp.asarray(levels)))
        return np.moveaxis(self._cut(values) * self.scale, 0, -1)

    @in_double
    def numerical_predictive(self) -> list[NumericalPredictive]:
        """The distribution of each output as a table."""
        likelihood, shape = self.likelihood, self.mean.shape

        def log_density(y: np.ndarray) -> np.ndarray:
            given = jnp.asarray(self._padded(y.reshape(len(y), *shape)))
            return self._cut(np.asarray(_log_densities(self.scaled, given))).reshape(y.shape)

        centre = (self.mean / self.scale).ravel()
        found = numerical_predictive(log_density, likelihood.support, centre)
        places = found.grid.reshape(-1, *shape) * self.scale
        cumulative = found.cumulative.reshape(-1, *shape)
        return [
            NumericalPredictive(places[..., p], cumulative[..., p], found.discrete)
            for p in range(shape[1])
        ]

    def _padded(self, y: np.ndarray) -> np.ndarray:
        """Outputs (..., n, P) of as many rows as `scaled` has, with further axes in front."""
        known = self.scaled.mean.shape
        return _longer(y, known[0], axis=-2).reshape(*y.shape[:-2], *known)

    def _cut(self, values: np.ndarray) -> np.ndarray:
        """Rows of `scaled` that these are, (..., n, P), with further axes in front."""
        n, P = self.mean.shape
        front = values.shape[: values.ndim - len(self.scaled.mean.shape)]
        return values.reshape(*front, -1, P)[..., :n, :]


def _longer(rows: np.ndarray, size: int, axis: int = 0) -> np.ndarray:
    """Rows with the first of them repeated behind."""
    more = size - rows.shape[axis]
    return np.concatenate([rows, np.repeat(rows.take([0], axis), more, axis)], axis)


def _of_repeating_size(
    X: np.ndarray, side: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray] | None]:
    """Inputs (n, D) and side data (n,) with rows behind, so that few programs do for all n."""
    X, size = np.asarray(X, float), padded_size(len(X))
    if any(np.shape(values)[:1] != X.shape[:1] for values in side.values()):
        return X, dict(side)  # which is refused as it is
    longer = {name: _longer(np.asarray(values), size) for name, values in side.items()}
    return _longer(X, size), longer or None


@compiled
def _log_densities(predictive: AbstractPredictive, y: Array) -> Array:
    rough = capability(predictive, HasRoughDensity)
    return jax.lax.map(predictive.log_density if rough is None else rough.rough_log_density, y)


def function_of(posterior: AbstractPosterior) -> AbstractPosterior:
    """The posterior of the first latent function; of classes, of all functions.

    Args:
        posterior: of one latent function or of several.
    """
    if posterior.model.likelihood.support is Support.LABELS:
        return posterior
    return posterior.of_function(0)


@in_double
def predict_outputs(
    posterior: AbstractPosterior, scale: np.ndarray, X: np.ndarray, side: Mapping[str, np.ndarray]
) -> Predictions:
    """The predictive distribution of outputs in the units of the data.

    Args:
        posterior: of outputs that were divided by `scale`.
        scale: the divisor of each output, (P,).
        X: inputs, (n, D).
        side: side data by name, (n,) each, where the fit had them.

    Raises:
        ValueError: for unusable inputs.
    """
    inputs, rows = _of_repeating_size(X, side)
    out = posterior.predict(inputs, rows=rows)
    mean, var = (np.asarray(a).reshape(-1, len(scale))[: len(X)] for a in (out.mean, out.var))
    mean, std = mean * scale, np.sqrt(var) * scale
    return Predictions(mean, std, out, scale, posterior.model.likelihood)


@dataclasses.dataclass(frozen=True, eq=False)
class BinaryProbabilities:
    """The probability of the second of two classes at every row, with its uncertainty.

    Attributes:
        mean: the probabilities, (n, 1).
    """

    mean: np.ndarray
    _likelihood: AbstractLikelihood
    _latent_mean: np.ndarray
    _latent_std: np.ndarray

    @in_double
    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        """Quantiles of the probability that the uncertain function gives, (n, 1, Q)."""
        from scipy.special import ndtri

        f = self._latent_mean[:, None] + self._latent_std[:, None] * ndtri(np.asarray(levels))
        found = np.exp(np.asarray(self._likelihood.log_prob(f, np.ones_like(f))))
        return found[:, None]


@in_double
def binary_probabilities(posterior: AbstractPosterior, X: np.ndarray) -> BinaryProbabilities:
    """The probability of the second of two classes.

    Args:
        posterior: of labels, with one latent function.
        X: inputs, (n, D).
    """
    mean, var = map(np.asarray, posterior.marginals(np.asarray(X, float)))
    second = np.exp(class_log_probabilities(posterior, X, 2)[:, 1:])
    return BinaryProbabilities(second, posterior.model.likelihood, mean, np.sqrt(var))


@in_double
def class_log_probabilities(posterior: AbstractPosterior, X: np.ndarray, count: int) -> np.ndarray:
    """Log probabilities of the classes 0, 1, ... of a classification, (n, C).

    Args:
        posterior: of labels.
        X: inputs, (n, D).
        count: the number of classes C.
    """
    inputs, _ = _of_repeating_size(X, {})
    out = posterior.predict(inputs)
    each = [np.asarray(out.log_density(jnp.full(len(inputs), float(c)))) for c in range(count)]
    found = np.stack(each, axis=1)[: len(X)]
    return found - np.logaddexp.reduce(found, axis=1, keepdims=True)


def bayes_decision(log_probabilities: np.ndarray, costs: object = None) -> np.ndarray:
    """The place of the class to decide for: the likeliest, or that of the least expected cost.

    Args:
        log_probabilities: (n, C).
        costs: cost of deciding for class j where class i is true, (C, C), or None.

    Raises:
        ValueError: for costs that are no finite matrix with a row and a column for each class.
    """
    if costs is None:
        return np.argmax(log_probabilities, axis=1)
    count = log_probabilities.shape[1]
    try:
        matrix = np.asarray(costs, float)
    except (TypeError, ValueError):  # ragged, or text
        matrix = np.full((0, 0), np.nan)
    if matrix.shape != (count, count) or not np.all(np.isfinite(matrix)):
        raise ValueError(
            f"costs must be finite numbers, ({count}, {count}): a row for each true class and a "
            f"column for each decision; given {reprlib.repr(costs)}"
        )
    return np.argmin(np.exp(log_probabilities) @ matrix, axis=1)
