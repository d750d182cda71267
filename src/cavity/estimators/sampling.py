"""Samples of outputs given the latent function, for any likelihood."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from cavity.learning.infer import one_blas_thread
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.numerical import likeliest, numerical_predictive
from cavity.numerics.jit import compiled

# Draws worked on at a time.
BATCH = 20_000


def sample_outputs(
    likelihood: AbstractLikelihood,
    f: np.ndarray,
    side: Mapping[str, np.ndarray],
    random: np.random.RandomState,
) -> np.ndarray:
    """A sample of y for every latent value, from a table of the distribution of y given f.

    Args:
        likelihood: of real numbers, positive ones, shares or counts.
        f: latent values, (S, n) or (S, n, P).
        side: side data by name, (n,) each.
        random: gives the random numbers.
    """
    shape = f.shape
    wide = {name: values.reshape((1, -1) + (1,) * (f.ndim - 2)) for name, values in side.items()}
    known = {name: np.broadcast_to(values, shape).ravel() for name, values in wide.items()}
    values, levels = f.ravel(), random.uniform(size=f.size)
    found = np.empty(f.size)
    for start in range(0, f.size, BATCH):
        part = slice(start, min(start + BATCH, f.size))
        here = {name: v[part] for name, v in known.items()}
        found[part] = _drawn(likelihood, values[part], here, levels[part])
    return found.reshape(shape)


def sample_outputs_of_draws(
    likelihoods: AbstractLikelihood,
    which: np.ndarray,
    f: np.ndarray,
    side: Mapping[str, np.ndarray],
    random: np.random.RandomState,
) -> np.ndarray:
    """`sample_outputs` where the likelihood of each sample has parameters of its own.

    Args:
        likelihoods: a likelihood with a first axis of draws in every array.
        which: the draw of each sample, (S,).
        f: latent values, (S, n).
        side: side data by name, (n,) each.
        random: gives the random numbers.
    """
    found = np.empty(f.shape)
    for draw in np.unique(which):
        own = jax.tree.map(lambda a, draw=draw: np.asarray(a)[draw], likelihoods)
        found[which == draw] = sample_outputs(own, f[which == draw], side, random)
    return found


def _drawn(likelihood: Any, f: np.ndarray, side: Any, levels: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True), one_blas_thread():

        def log_density(y: np.ndarray) -> np.ndarray:
            return np.asarray(_log_prob(likelihood, f, y, side))

        top = likeliest(log_density, likelihood.support, f)
        table = numerical_predictive(log_density, likelihood.support, top)
    return table.quantile_of_each(levels)


@compiled
def _log_prob(likelihood: Any, f: Any, y: Any, side: Any) -> Any:
    return likelihood.log_prob(f, y, **side)
