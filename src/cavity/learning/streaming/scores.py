"""Scores of a batch of rows, predicted before it was learned from."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from cavity.likelihoods.latent_values import sample
from cavity.likelihoods.predictive.base import AbstractPredictive
from cavity.likelihoods.predictive.latent import LatentPredictive
from cavity.numerics.callers import warn_caller
from cavity.numerics.jit import compiled
from cavity.numerics.text import plural
from cavity.numerics.types import Array

# Midpoints of equal shares of the probability: what outputs may be, as the model sees it.
LEVELS = (np.arange(16) + 0.5) / 16
# A batch surprises where it falls short by so many nats per output and so many standard errors.
SURPRISE, ERRORS = 1.0, 5.0


@dataclasses.dataclass(frozen=True)
class BatchScores:
    """Scores of a batch of rows, predicted before it was learned from.

    Attributes:
        outputs: outputs that were observed.
        log_density: mean log predictive density of them, nats per output.
        expected: what that would be on average if the model were right.
        spread: the standard error of `log_density` about `expected`, for independent outputs.
        rmse: root mean squared difference of outputs and predictive means; of labels, of
            probabilities.
    """

    outputs: int
    log_density: float
    expected: float
    spread: float
    rmse: float

    @property
    def surprising(self) -> bool:
        """True if the outputs are far less likely than the model expected."""
        short = self.expected - self.log_density
        return bool(short > SURPRISE and short > ERRORS * self.spread)


NO_SCORES = BatchScores(0, np.nan, np.nan, np.nan, np.nan)


def batch_scores(predicted: AbstractPredictive, y: np.ndarray) -> BatchScores:
    """Scores of the outputs that are not NaN.

    Args:
        predicted: the predictive distribution of the batch.
        y: its outputs, in the shape of the predictions.
    """
    seen = ~np.isnan(y)
    count = int(np.sum(seen))
    if not count:
        return NO_SCORES
    mean = np.asarray(predicted.mean)
    # what is missing counts as the mean where its density is asked for, and then not at all
    filled = jnp.asarray(np.where(seen, y, mean))
    density, expected = (np.asarray(x)[..., seen] for x in _densities(predicted, filled))
    return BatchScores(
        outputs=count,
        log_density=float(np.mean(density)),
        expected=float(np.mean(expected)),
        spread=float(np.sqrt(np.sum(np.var(expected, axis=0))) / count),
        rmse=float(np.sqrt(np.mean((y - mean)[seen] ** 2))),
    )


def scores_of_all(each: Sequence[BatchScores]) -> BatchScores:
    """The scores of several batches as of one."""
    seen = [scores for scores in each if scores.outputs]
    if not seen:
        return NO_SCORES
    counts, density, expected, spread, rmse = np.array([dataclasses.astuple(s) for s in seen]).T
    shares = counts / counts.sum()
    return BatchScores(
        outputs=int(counts.sum()),
        log_density=float(shares @ density),
        expected=float(shares @ expected),
        spread=float(np.sqrt(np.sum((shares * spread) ** 2))),
        rmse=float(np.sqrt(shares @ rmse**2)),
    )


@compiled
def _densities(predicted: AbstractPredictive, y: Array) -> tuple[Array, Array]:
    """Log densities of outputs, and of those that stand for what they may be, (16, ...)."""
    likely = _likely_outputs(predicted)
    return predicted.log_density(y), jax.lax.map(predicted.log_density, likely)


@functools.singledispatch
def _likely_outputs(predicted: AbstractPredictive) -> Array:
    """Quantiles of the predictive distribution of each row, of equal probability, (16, ...)."""
    return predicted.quantile(jnp.asarray(LEVELS, predicted.mean.dtype))


@_likely_outputs.register
def _(predicted: LatentPredictive) -> Array:
    # quantiles are roots of a sum over nodes, far dearer than draws given latent values
    count, mean = len(LEVELS), predicted.latent_mean
    z = ndtri(jnp.asarray(LEVELS, mean.dtype)).reshape(count, *([1] * mean.ndim))
    f = mean + jnp.sqrt(predicted.latent_var) * z
    return sample(predicted.likelihood, jax.random.key(0), f, predicted.side)


def warn_of_surprise(scores: BatchScores) -> None:
    """Warns of a batch that the model did not expect."""
    if scores.surprising:
        warn_caller(
            f"{plural(scores.outputs, 'new output')} with a mean log density of "
            f"{scores.log_density:.3g} nats before they are learned from, where the model "
            f"expected {scores.expected:.3g}: the data may have changed; half_life=... lets the "
            "past fade"
        )
