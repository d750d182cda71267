r"""Energies of exact factors in two passes over batches.

The data enter only through the sum of messages $\mathbf m = \sum_b \mathbf m_b(\theta)$, so that
with $E(\theta, \mathbf m)$ the energy of given messages

$$\frac{dE}{d\theta} = \frac{\partial E}{\partial \theta} +
\sum_b \Big(\frac{\partial \mathbf m_b}{\partial \theta}\Big)^\top
\frac{\partial E}{\partial \mathbf m}.$$

A first pass sums the messages, a second their vector-Jacobian products with the common derivative.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import beliefs_under, collect_messages, empty_sites, energy
from cavity.inference.graph.base import Messages
from cavity.learning.data.arrays import Data
from cavity.learning.data.batched import BatchedData
from cavity.models.base import AbstractModel
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Scalar
from cavity.parameters import from_real
from cavity.parameters.priors import log_prior

Received = tuple[Messages, ...]


def streamed_value_and_grad(
    real: Array,
    start: AbstractModel,
    maps: Any,
    densities: Any,
    stream: BatchedData,
    approximation: AbstractApproximation,
    jitter: Scalar,
) -> tuple[float, np.ndarray]:
    """The energy minus log priors, and its gradient in the unconstrained parameters.

    NaN, after one pass, where the energy is not finite.
    """
    fixed = (start, maps)
    total = _summed(
        _messages(real, *fixed, block, approximation, jitter) for block in stream.blocks()
    )
    own = _energy(real, total, *fixed, densities, stream.head, approximation, jitter)
    value, (gradient, slope) = own
    if not np.isfinite(float(value)):
        return float(value), np.full(real.shape, np.nan)
    pulled = _summed(
        _pulled(real, slope, *fixed, block, approximation, jitter) for block in stream.blocks()
    )
    return float(value), np.asarray(gradient + pulled, np.float64)


def streamed_posterior(
    model: AbstractModel, stream: BatchedData, approximation: AbstractApproximation, jitter: Scalar
) -> tuple[AbstractPosterior, Scalar]:
    """The posterior of exact factors, and the energy, in one pass."""
    none = jnp.zeros(0, stream.rows.x.dtype)
    total = _summed(
        _messages(none, model, None, block, approximation, jitter) for block in stream.blocks()
    )
    return _posterior(total, model, stream.head, approximation, jitter)


def _summed(parts: Any) -> Any:
    total = None
    for each in parts:
        total = each if total is None else _add(total, each)
    return total


@compiled
def _add(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.add, a, b)


def _sent(
    real: Array,
    start: AbstractModel,
    maps: Any,
    data: Data,
    approximation: AbstractApproximation,
    jitter: Scalar,
) -> Received:
    model = start if maps is None else from_real(real, start, maps)
    graph = data.problem(model, approximation, jitter).graph()
    found = collect_messages(graph, empty_sites(graph))
    return tuple(messages for messages in found if messages is not None)


_messages = compiled(_sent)


@compiled
def _pulled(
    real: Array,
    slope: Received,
    start: AbstractModel,
    maps: Any,
    data: Data,
    approximation: AbstractApproximation,
    jitter: Scalar,
) -> Array:
    """What the slope in the messages of a block is in the parameters."""
    _, back = jax.vjp(lambda real: _sent(real, start, maps, data, approximation, jitter), real)
    return back(slope)[0]


@compiled
def _energy(
    real: Array,
    total: Received,
    start: AbstractModel,
    maps: Any,
    densities: Any,
    head: Data,
    approximation: AbstractApproximation,
    jitter: Scalar,
) -> tuple[Scalar, tuple[Array, Received]]:
    def loss(real: Array, total: Received) -> Scalar:
        model = from_real(real, start, maps)
        graph = head.problem(model, approximation, jitter).graph()
        q = beliefs_under(graph, total)
        return energy(graph, empty_sites(graph), q=q) - log_prior(model, densities)

    return jax.value_and_grad(loss, argnums=(0, 1))(real, total)


@compiled
def _posterior(
    total: Received,
    model: AbstractModel,
    head: Data,
    approximation: AbstractApproximation,
    jitter: Scalar,
) -> tuple[AbstractPosterior, Scalar]:
    graph = head.problem(model, approximation, jitter).graph()
    q = beliefs_under(graph, total)
    posterior = model.posterior(graph, q, head.rows, single=head.single)
    return posterior, energy(graph, empty_sites(graph), q=q)
