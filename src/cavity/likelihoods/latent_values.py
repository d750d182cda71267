"""Latent values and outputs of any likelihood: initial guesses, and samples."""

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import HasInitialLatents, HasSampler, capability
from cavity.likelihoods.predictive.base import NONE, Side
from cavity.likelihoods.predictive.tabulated import sample_from_density
from cavity.likelihoods.support import Support
from cavity.numerics.types import Array, Float, PRNGKeyArray


def initial_latents(
    likelihood: AbstractLikelihood, y: np.ndarray, **side: np.ndarray
) -> np.ndarray:
    """Rough latent values that would give these outputs, to start learning from.

    Args:
        likelihood: with a rule of its own, or known by its support alone.
        y: outputs, (N,).
        **side: side data of the rows, and their weights.

    Returns:
        Values of the first latent function, (N,); of all classes, (N, C).
    """
    weights = side.pop("weight", None)
    with_rule = capability(likelihood, HasInitialLatents)
    if with_rule is not None:
        return with_rule.initial_latents(y, **side)
    if likelihood.support is Support.POSITIVE:
        return np.log(y)
    if likelihood.support is Support.UNIT:
        return np.log(y) - np.log1p(-y)
    if likelihood.support is Support.COUNTS:
        return np.log((y + 0.5) / side.get("exposure", 1.0))
    if likelihood.support is Support.LABELS:
        # the log odds of the classes, and a unit to either side
        mean = np.average(y, weights=weights)
        count = len(y) if weights is None else np.sum(weights)
        return log_odds(mean, count) + 2.0 * (y - mean)
    return y


def log_odds(share: ArrayLike, count: ArrayLike) -> np.ndarray:
    """Log odds of a class of which there is a share among so many rows; finite for 0 and 1."""
    least = np.minimum(0.5 / np.maximum(count, 1.0), 0.5)
    within = np.asarray(np.clip(share, least, 1.0 - least))
    return np.asarray(np.log(within) - np.log1p(-within))


def sample(
    likelihood: AbstractLikelihood, key: PRNGKeyArray, f: Array, side: Side = NONE
) -> Float[Array, "..."]:
    """One output for every latent value, drawn independently.

    Args:
        likelihood: with a sampler of its own, or known by its density alone.
        key: a random key.
        f: latent values; several functions along a first axis.
        side: side data of the rows, in shapes that broadcast against the outputs.
    """
    with_sampler = capability(likelihood, HasSampler)
    if with_sampler is None:
        return sample_from_density(likelihood, key, f, side)
    return with_sampler.sample(key, f, **side)
