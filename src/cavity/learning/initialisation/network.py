"""Starts of networks: modes of their weights, found by gradients from weights at random."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import ArrayLike

from cavity.inference.networks.activations import activation_of
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.data.training_data import Data, some_rows
from cavity.learning.data.validation import all_fixed
from cavity.learning.infer import checked_start
from cavity.learning.initialisation.linear import AskedWeights, output_spread
from cavity.learning.optimisers.lbfgs import minimise
from cavity.models.drawn_weights import DrawnWeights
from cavity.models.network.checks import checked_widths
from cavity.models.network.network import Network, random_start
from cavity.models.network.start import NetworkStart
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Scalar
from cavity.parameters import bijections
from cavity.weights.densities import Gaussian

# Variance of what enters a unit, all columns together; of weights between layers, before they are
# divided by the root of the units below; of what one unit may give, and of the noise, as shares of
# that of the outputs.
_INTO_UNITS, _INTO_INNER, _OUTPUT, _NOISE = 2.0, 4.0, 4.0, 0.1
# Iterations of a search for a mode at the most, and the fall in nats that ends it.
ITERATIONS, TOLERANCE = 1000, 1e-4


@dataclasses.dataclass(frozen=True)
class AskedNetwork(AskedWeights):
    """A network as it was asked for; its prior is that of the units' weights.

    Attributes:
        hidden: the number of units, or one for each layer.
        activation: as of `Network`.
        linear: whether there is a linear part.
    """

    hidden: int | Sequence[int] = 20
    activation: str | Callable[[Array], Array] = "erf"
    linear: bool = True


def starting_network(asked: AskedNetwork, table: WeightedTable) -> Network:
    """A network whose function and noise share the spread of the outputs.

    Args:
        asked: the network.
        table: the rows, of one output.
    """
    spread, columns = output_spread(asked.likelihood, table), asked.columns(table)
    widths = checked_widths(asked.hidden)
    return Network(
        asked.hidden,
        asked.prior_at(table, _INTO_UNITS, 0.0),
        asked.activation,
        asked.likelihood_at(table, _NOISE * spread.variance),
        asked.linear,
        output=Gaussian(_OUTPUT * widths[-1] * spread.variance),
        inner=Gaussian(_INTO_INNER) if widths[1:] else None,
        bias=10.0 * (spread.variance + spread.height**2),
        groups=asked.groups,
        centre=None if columns is None else columns.centre,
        scale=None if columns is None else columns.scale,
    )


def held_output(model: Network) -> Network:
    """Bijections with the variance of output weights held: with the units' it is one too many."""
    maps = bijections(model)
    return eqx.tree_at(lambda m: m.output, maps, all_fixed(maps.output))


@with_one_blas_thread
def network_at_mode(
    model: Network,
    X: ArrayLike,
    y: ArrayLike,
    *,
    seed: int = 0,
    rows: Mapping[str, ArrayLike] | None = None,
    missing: str = "error",
    at_most: int | None = None,
) -> Network:
    """A network whose search for the posterior starts from a mode of its weights.

    The mode of the likelihood times the priors, each as a Gaussian of its starting variance, is
    found by gradients from weights at random. Weights whose prior allows no negative ones have
    none at the mode, and output weights that are known stay. Output weights are made positive
    where the activation is odd, unless their units may not change sign. Different seeds find
    different modes: of the results of `infer` or `fit` from them, the one with the largest
    evidence is the best guess.

    Args:
        model: the network, whose parameters stay as they are.
        X: inputs, (N, D).
        y: outputs, (N,).
        seed: of the random weights.
        rows: as in `infer`.
        missing: as in `infer`.
        at_most: rows, drawn at random, that the mode is found from; None for all of them.

    Returns:
        The network, with `start` at the mode.

    Raises:
        ValueError: for data that do not suit the model, and `at_most` below one.

    References:
        Jylanki (2013), S96, S109 and S121.
    """
    data = prepare(X, y, rows=rows, missing=missing)
    if at_most is not None:
        data = _some(data, at_most, seed)
    checked, _, _ = checked_start(dataclasses.replace(model, start=None), data, 0.0)
    first = random_start(model, data.rows.x.shape[-1], seed)
    if model.output_weights is not None:
        first = eqx.tree_at(lambda s: s.output, first, jnp.asarray(model.output_weights))
    x, restore = ravel_pytree(first)
    spread = checked.prior_variances(data.rows.x.shape[-1])

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
        weights = restore(jnp.asarray(point, x.dtype))
        value, slope = _slope(weights, checked, data.rows, spread)
        return float(value), np.asarray(ravel_pytree(slope)[0], float)

    lower = np.asarray(ravel_pytree(_lowest(model, first))[0], float)
    bounds = np.stack([lower, np.full(x.size, np.inf)], axis=1)
    found = minimise(
        evaluate,
        np.asarray(x, float),
        bounds=bounds,
        max_iterations=ITERATIONS,
        tolerance=TOLERANCE,
    )
    mode = restore(jnp.asarray(found.x, x.dtype))
    return dataclasses.replace(model, start=_upright(mode, model))


def _some(data: Data, at_most: int, seed: int) -> Data:
    """The data, or rows of them drawn at random where there are more than so many.

    Raises:
        ValueError: for fewer than one.
    """
    if at_most < 1:
        raise ValueError(f"at_most is a number of rows, 1 or more, or None; given {at_most}")
    if int(data.length) <= at_most:
        return data
    chosen = np.random.default_rng(seed).permutation(int(data.length))[:at_most]
    return some_rows(data, jnp.asarray(chosen))


def _lowest(model: Network, like: NetworkStart) -> NetworkStart:
    """Lower bounds: zero where a prior allows no negative weights, none for known weights."""
    lowest = jax.tree.map(lambda w: np.full(w.shape, -np.inf), like)
    lowest.hidden[:-1] = model.prior.lowest
    for weights in lowest.inner:
        weights[:-1] = (model.prior if model.inner is None else model.inner).lowest
    if model.output_weights is None:
        lowest.output[:-1] = model.output.lowest
    if model.linear is not None:
        lowest.linear[:] = model.linear.lowest
    return lowest


@compiled
def _slope(
    weights: NetworkStart, model: Network, rows: Any, spread: NetworkStart
) -> tuple[Scalar, NetworkStart]:
    """The negative log of likelihood and priors, constants left out, and its slopes."""

    def value(weights: NetworkStart) -> Scalar:
        f = model.functions_of(_weight_parts(weights, model), rows.x)
        f = model.likelihood.at_shared_means(f)
        log_p = model.likelihood.log_prob(f, rows.y, **rows.columns)
        squares = jax.tree.map(lambda w, v: jnp.sum(w**2 / v), weights, spread)
        penalty = sum(jax.tree.leaves(squares), jnp.zeros(()))
        return 0.5 * penalty - jnp.sum(rows.site_presence * log_p)

    found, slope = eqx.filter_value_and_grad(value)(weights)
    if model.output_weights is not None:
        slope = eqx.tree_at(lambda s: s.output, slope, jnp.zeros_like(slope.output))
    return found, slope


def _weight_parts(weights: NetworkStart, model: Network) -> DrawnWeights:
    """The weights in the order of `model.weight_parts`."""
    parts = [part for w in (weights.hidden, *weights.inner) for part in (w[:-1], w[-1:])]
    if model.output_weights is None:
        parts.extend((weights.output[:-1, None], weights.output[-1:, None]))
    if weights.linear is not None:
        parts.append(weights.linear[:, None])
    return tuple(parts)


def _upright(mode: NetworkStart, model: Network) -> NetworkStart:
    """The same network with output weights that are positive, where signs may be changed."""
    g = activation_of(model.activation)
    odd = bool(jnp.allclose(g(jnp.asarray([0.5, 1.5])), -g(jnp.asarray([-0.5, -1.5]))))
    *layers, output = (np.array(w) for w in (mode.hidden, *mode.inner, mode.output))
    prior = model.prior if model.inner is None else model.inner
    if odd and model.output_weights is None and prior.lowest < 0.0:
        sign = np.where(output[:-1] < 0.0, -1.0, 1.0)
        layers[-1], output[:-1] = layers[-1] * sign, output[:-1] * sign
    return NetworkStart(layers[0], output, mode.linear, layers[1:])
