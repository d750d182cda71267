"""Weights that a search for the posterior of a network starts from."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.numerics.callers import warn_caller
from cavity.numerics.types import Array, Float
from cavity.parameters import fixed

# Units whose weights differ by less than this share of their size are alike.
_ALIKE = 1e-6


class NetworkStart(eqx.Module):
    """Weights of a network that a search for its posterior starts from.

    Args:
        hidden: weights of the units of the first layer, (D + 1, K), that of the intercept last.
        output: output weights, (K + 1,) with K units in the last layer, the bias last.
        linear: weights of the linear function, (D,); None for none.
        inner: weights of the units of every further layer, (K + 1, L) from K units to L, that of
            the intercept last.
    """

    hidden: Float[Array, "p K"] = fixed()
    output: Float[Array, " B"] = fixed()
    linear: Float[Array, " D"] | None = fixed(optional=True)
    inner: tuple[Float[Array, "..."], ...] = fixed(several=True)

    def __init__(self, hidden: Any, output: Any, linear: Any = None, inner: Sequence[Any] = ()):
        self.hidden, self.inner, self.output = _apart(hidden, tuple(inner), output)
        self.linear = linear


def random_weights(variances: NetworkStart, positive: tuple[bool, ...], seed: int) -> NetworkStart:
    """Random weights; those of the output are positive, those of a linear part zero.

    Args:
        variances: of the priors of all weights.
        positive: whether weights of units of the first layer, and of further ones, are positive.
        seed: of the draw.
    """
    random = np.random.default_rng(seed)
    layers = []
    for number, spread in enumerate((variances.hidden, *variances.inner)):
        above = (*variances.inner, variances.output)[number]
        drawn = random.standard_normal((len(spread), len(above) - 1))
        if positive[min(number, 1)]:
            drawn[:-1] = np.abs(drawn[:-1])
        shares = np.full(spread.shape, 1.0 / len(spread))
        if number:  # priors of inner weights are divided by the units below already
            shares[:-1] = 1.0
        layers.append(drawn * jnp.sqrt(spread * shares))
    output = np.append(np.abs(random.standard_normal(len(variances.output) - 1)), 0.0)
    linear = variances.linear
    return NetworkStart(
        layers[0],
        output * jnp.sqrt(variances.output),
        None if linear is None else np.zeros(len(linear)),
        layers[1:],
    )


def _apart(hidden: Any, inner: tuple[Any, ...], output: Any) -> tuple[Any, Any, Any]:
    """Weights of units of which no two in a layer are alike."""
    layers, moved = [hidden, *inner], False
    if not all(isinstance(weights, np.ndarray) and weights.ndim == 2 for weights in layers):
        return hidden, inner, output
    above = [*inner, np.asarray(output).reshape(-1, 1)]
    if any(len(a) != w.shape[1] + 1 for a, w in zip(above, layers, strict=True)):
        return hidden, inner, output  # which a model refuses
    for number, weights in enumerate(layers):
        # units and what is made of them; sweeps keep alike what is alike
        units = np.concatenate([weights, above[number][:-1].T]).T
        size = np.sqrt(np.mean(units**2)) or 1.0
        gaps = np.max(np.abs(units[:, None] - units[None]), axis=-1) + np.eye(len(units)) * size
        if np.all(gaps > _ALIKE * size):
            continue
        random = np.random.default_rng(0)
        scale = 0.1 * (np.sqrt(np.mean(weights**2)) or 1.0)
        layers[number], moved = weights + scale * random.standard_normal(weights.shape), True
    if moved:
        warn_caller(
            "units of the start are alike, and would stay so: their weights were moved apart by "
            "a tenth at random"
        )
    return layers[0], tuple(layers[1:]), output
