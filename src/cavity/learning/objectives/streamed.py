r"""Energies of exact factors in two passes over the parts of a table.

The data enter only through the sum of messages $\mathbf m = \sum_b \mathbf m_b(\theta)$, so that
with $E(\theta, \mathbf m)$ the energy of given messages

$$\frac{dE}{d\theta} = \frac{\partial E}{\partial \theta} +
\sum_b \Big(\frac{\partial \mathbf m_b}{\partial \theta}\Big)^\top
\frac{\partial E}{\partial \mathbf m}.$$

A first pass sums the messages, a second their vector-Jacobian products with the common derivative.
Blocks of a part are added in their order, and parts by the engine.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import beliefs_under, collect_messages, empty_sites, energy
from cavity.inference.graph.base import Messages
from cavity.learning.data.training_data import AbstractTrainingData, Data
from cavity.learning.objectives.learning_energy import LearningEnergy
from cavity.learning.results.result import Posterior
from cavity.numerics.jit import compiled_once
from cavity.numerics.types import Array, Scalar

Received = tuple[Messages, ...]


def streamed_value_and_grad(
    function: LearningEnergy, move: Array, data: AbstractTrainingData, jitter: Scalar
) -> tuple[float, np.ndarray]:
    """The energy minus log priors, and its gradient in the unconstrained parameters.

    NaN, after one pass, where the energy is not finite.
    """
    total = data.summed(block_messages, function, move, jitter)
    value, (gradient, slope) = _energy(function, move, total, data.exemplar, jitter)
    if not np.isfinite(float(value)):
        return float(value), np.full(move.shape, np.nan)
    pulled = data.summed(block_slopes, function, move, jitter, slope)
    return float(value), np.asarray(gradient + pulled, np.float64)


def streamed_posterior(
    function: LearningEnergy, data: AbstractTrainingData, jitter: Scalar
) -> tuple[Posterior, Scalar]:
    """The posterior of exact factors, and the energy, in one pass."""
    stay = jnp.zeros_like(function.origin)
    total = data.summed(block_messages, function, stay, jitter)
    return _posterior(function, total, data.exemplar, jitter)


def _sent(function: LearningEnergy, move: Array, jitter: Scalar, data: Data) -> Received:
    graph = function.graph(function.model(move), data, jitter)
    sent = collect_messages(graph, empty_sites(graph))
    return tuple(messages for messages in sent if messages is not None)


@compiled_once
def block_messages(function: LearningEnergy, move: Array, jitter: Scalar, data: Data) -> Received:
    """The messages of the rows of a block."""
    return _sent(function, move, jitter, data)


@compiled_once
def block_slopes(
    function: LearningEnergy, move: Array, jitter: Scalar, slope: Received, data: Data
) -> Array:
    """The product of a slope in the messages of a block with their derivative."""
    _, back = jax.vjp(lambda move: _sent(function, move, jitter, data), move)
    return back(slope)[0]


@compiled_once
def _energy(
    function: LearningEnergy, move: Array, total: Received, data: Data, jitter: Scalar
) -> tuple[Scalar, tuple[Array, Received]]:
    def loss(move: Array, total: Received) -> Scalar:
        model = function.model(move)
        graph = function.graph(model, data, jitter)
        q = beliefs_under(graph, total)
        return energy(graph, empty_sites(graph), q=q) - function.log_prior(model)

    return jax.value_and_grad(loss, argnums=(0, 1))(move, total)


@compiled_once
def _posterior(
    function: LearningEnergy, total: Received, data: Data, jitter: Scalar
) -> tuple[Posterior, Scalar]:
    graph = function.graph(function.start, data, jitter)
    q = beliefs_under(graph, total)
    posterior = function.start.posterior(graph, q, data.rows, single=data.single)
    return posterior, energy(graph, empty_sites(graph), q=q)
