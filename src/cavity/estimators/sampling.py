"""Samples of outputs given samples of the latent functions."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

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
    drawn: AbstractLikelihood | None = None,
) -> np.ndarray:
    """One output for every latent value.

    Args:
        likelihood: the likelihood, with one latent function or several.
        f: latent values, (S, n) or (S, n, P); of L latent functions, (S, n, L).
        side: side data by name, (n,) each.
        random: gives the random numbers.
        drawn: the likelihoods of the samples, with a first axis in every array, where they have
            their own.

    Returns:
        (S, n) or (S, n, P).
    """
    wide = _columns(side, f.ndim - 1 if likelihood.latents == 1 else 1)
    key = jax.random.key(random.randint(2**31 - 1))
    if drawn is None:
        return np.asarray(_sample(likelihood, key, _functions_first(likelihood, f), wide))
    return np.asarray(_sample_each(drawn, jax.random.split(key, len(f)), jnp.asarray(f), wide))


def _columns(side: Mapping[str, np.ndarray], axes: int) -> dict[str, Array]:
    """Side data that broadcast against outputs with so many axes, rows first."""
    return {n: jnp.reshape(v, (-1,) + (1,) * (axes - 1)) for n, v in side.items()}


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
