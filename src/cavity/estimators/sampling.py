"""Samples of outputs given samples of the latent functions."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.learning.infer import one_blas_thread
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.latent_values import sample
from cavity.likelihoods.predictive.base import Side
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Key, PRNGKeyArray


def sample_outputs(
    likelihood: AbstractLikelihood,
    f: np.ndarray,
    side: Mapping[str, np.ndarray],
    random: np.random.RandomState,
) -> np.ndarray:
    """One output for every latent value.

    Args:
        likelihood: the likelihood, with one latent function or several.
        f: latent values, (S, n) or (S, n, P); of L latent functions, (S, n, L).
        side: side data by name, (n,) each.
        random: gives the random numbers.

    Returns:
        (S, n) or (S, n, P).
    """
    with jax.enable_x64(True), one_blas_thread():
        key, values = _key(random), _functions_first(likelihood, f)
        wide = _columns(side, f.ndim - 1 if likelihood.latents == 1 else 1)
        return np.asarray(_sample(likelihood, key, values, wide))


def sample_outputs_of_draws(
    likelihoods: AbstractLikelihood,
    index: np.ndarray,
    f: np.ndarray,
    side: Mapping[str, np.ndarray],
    random: np.random.RandomState,
) -> np.ndarray:
    """`sample_outputs` where the likelihood of each sample has parameters of its own.

    Args:
        likelihoods: a likelihood with a first axis of draws in every array.
        index: the draw of each sample, (S,).
        f: latent values, (S, n) or (S, n, P); of L latent functions, (S, n, L).
        side: side data by name, (n,) each.
        random: gives the random numbers.

    Returns:
        (S, n) or (S, n, P).
    """
    with jax.enable_x64(True), one_blas_thread():
        keys = jax.random.split(_key(random), len(f))
        chosen = jax.tree.map(lambda a: np.asarray(a)[index], likelihoods)
        wide = _columns(side, f.ndim - 1 if likelihoods.latents == 1 else 1)
        return np.asarray(_sample_each(chosen, keys, jnp.asarray(f), wide))


def _key(random: np.random.RandomState) -> PRNGKeyArray:
    return jax.random.key(random.randint(2**31 - 1))


def _columns(side: Mapping[str, np.ndarray], axes: int) -> dict[str, Any]:
    """Side data that broadcast against outputs with so many axes, rows first."""
    return {name: v.reshape((-1,) + (1,) * (axes - 1)) for name, v in side.items()}


def _functions_first(likelihood: AbstractLikelihood, f: np.ndarray | Array) -> Array:
    return jnp.asarray(f) if likelihood.latents == 1 else jnp.moveaxis(jnp.asarray(f), -1, 0)


@compiled
def _sample(likelihood: AbstractLikelihood, key: PRNGKeyArray, f: Array, side: Side) -> Array:
    return sample(likelihood, key, f, side)


@compiled
def _sample_each(
    likelihoods: AbstractLikelihood, keys: Key[Array, " n"], f: Array, side: Side
) -> Array:
    def of_draw(draw: tuple[AbstractLikelihood, PRNGKeyArray, Array]) -> Array:
        likelihood, key, values = draw
        return sample(likelihood, key, _functions_first(likelihood, values), side)

    return jax.lax.map(of_draw, (likelihoods, keys, f))
