r"""Passes over the parts of a table: messages, sweeps of sites, energy and gradient.

The data enter only through the sum of messages $\mathbf m = \sum_b \mathbf m_b(\theta, s_b)$ and
through the log scales $e_b(\theta, q, s_b)$ of rows with sites $s_b$ of their own, which belong to
their part. Beliefs q follow from $\mathbf m$. With $E(\theta, \mathbf m)$ the terms of the
beliefs, and sites at a fixed point, where the energy is stationary in them and in q,

$$\frac{dE}{d\theta} = \frac{\partial E}{\partial \theta} + \sum_b
\Big(\frac{\partial \mathbf m_b}{\partial \theta}\Big)^\top \frac{\partial E}{\partial \mathbf m}
- \sum_b \frac{\partial e_b}{\partial \theta}.$$

A first pass sums the messages, a second the rest. A sweep is a pass too: from beliefs, which are
small, every part moves its sites and returns their messages. Exact factors have no sites.

References:
    Bui (2017), S22.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import (
    Graph,
    Sites,
    belief_terms,
    beliefs_under,
    collect_messages,
    empty_sites,
    factor_terms,
)
from cavity.inference.factors.base import Beliefs
from cavity.inference.graph.base import Messages
from cavity.inference.solvers.parallel import sweep_under
from cavity.learning.data.training_data import AbstractTrainingData, Data, StoredSites
from cavity.learning.objectives.learning_energy import LearningEnergy
from cavity.learning.results.result import Posterior
from cavity.numerics.jit import compiled_once
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Array, Scalar

Received = tuple[Messages, ...]


class At(NamedTuple):
    """Where passes are made.

    Attributes:
        function: the energy of the model.
        move: of the unconstrained parameters.
        jitter: share of the mean prior variance added to the diagonal of a covariance.
    """

    function: LearningEnergy
    move: Array
    jitter: Scalar


class Swept(NamedTuple):
    """A sweep of the sites of some rows.

    Attributes:
        messages: of the sites after it.
        residual: the largest change of a moment that a full step makes, in deviations; infinite
            where a belief is not proper.
        skipped: sites skipped because their cavity is not proper.
    """

    messages: Received
    residual: Array | np.ndarray
    skipped: Array | np.ndarray


def both_swept(a: Swept, b: Swept) -> Swept:
    """The sweep of the rows of both, in numpy arrays."""
    return Swept(
        jax.tree.map(np.add, a.messages, b.messages),
        np.maximum(a.residual, b.residual),
        np.add(a.skipped, b.skipped),
    )


def value_and_grad_by_passes(
    at: At,
    data: AbstractTrainingData,
    total: Received | None = None,
    sites: StoredSites | None = None,
) -> tuple[float, np.ndarray]:
    """The energy minus log priors, and its gradient in the unconstrained parameters.

    NaN, after one pass, where the energy is not finite.

    Args:
        at: where.
        data: the table.
        total: the messages of all rows; None to sum them.
        sites: the rows' own sites at their fixed point; None for exact factors.
    """
    known = data.summed(block_messages, at, sites=sites) if total is None else total
    value, (gradient, slope) = _whole(at, known, data.exemplar)
    if not np.isfinite(float(value)):
        return float(value), np.full(at.move.shape, np.nan)
    rows, pulled = data.summed(block_slopes, at, known, slope, sites=sites)
    return float(value + rows), np.asarray(gradient + pulled, np.float64)


def posterior_by_passes(
    at: At,
    data: AbstractTrainingData,
    total: Received | None = None,
    sites: StoredSites | None = None,
) -> tuple[Posterior, float]:
    """The posterior and the energy; arguments as above."""
    known = data.summed(block_messages, at, sites=sites) if total is None else total
    posterior, value = _posterior(at, known, data.exemplar)
    if sites is not None:
        value = value + data.summed(block_energy, at, known, sites=sites)
    return posterior, float(value)


def _graph(at: At, data: Data, move: Array) -> Graph:
    return at.function.graph(at.function.model(move), data, at.jitter)


def _messages_of(graph: Graph, sites: Sites) -> Received:
    sent = collect_messages(graph, sites or empty_sites(graph))
    return tuple(messages for messages in sent if messages is not None)


def _rows_energy(graph: Graph, q: Beliefs, sites: Sites) -> Scalar:
    terms = factor_terms(graph, q, sites, settled=True) if sites else []
    return -sum(terms, jnp.zeros((), q[0].log_normaliser.dtype))


@compiled_once
def block_empty(at: At, data: Data) -> Sites:
    """The sites of a block that a search starts from."""
    return empty_sites(_graph(at, data, at.move))


@compiled_once
def block_messages(at: At, sites: Sites, data: Data) -> Received:
    """The messages of the rows of a block."""
    return _messages_of(_graph(at, data, at.move), sites)


@compiled_once
def block_energy(at: At, total: Received, sites: Sites, data: Data) -> Scalar:
    """What the rows of a block add to the energy."""
    graph = _graph(at, data, at.move)
    return _rows_energy(graph, beliefs_under(graph, total), sites)


@compiled_once
def block_slopes(
    at: At, total: Received, slope: Received, sites: Sites, data: Data
) -> tuple[Scalar, Array]:
    """What the rows add to the energy, and to the gradient by it and by their messages."""
    q = frozen(beliefs_under(_graph(at, data, at.move), total))

    def part(move: Array) -> tuple[Received, Scalar]:
        graph = _graph(at, data, move)
        return _messages_of(graph, sites), _rows_energy(graph, q, sites)

    (_, value), back = jax.vjp(part, at.move)
    return value, back((slope, jnp.ones_like(value)))[0]


@compiled_once
def block_sweep(
    at: At, total: Received, step: Scalar, sites: Sites, data: Data
) -> tuple[Swept, Sites]:
    """A sweep of the rows of a block from the beliefs of all."""
    graph = frozen(_graph(at, data, at.move)).with_projections()
    result = sweep_under(graph, beliefs_under(graph, total), sites, 1.0)
    moved = jax.tree.map(lambda old, to: old + step * (to - old), sites, result.sites)
    return Swept(_messages_of(graph, moved), result.residual, result.skipped), moved


@compiled_once
def _whole(at: At, total: Received, data: Data) -> tuple[Scalar, tuple[Array, Received]]:
    """Energy of the beliefs minus log priors, with slopes in the parameters and messages."""

    def loss(move: Array, total: Received) -> Scalar:
        graph = _graph(at, data, move)
        terms = belief_terms(graph, beliefs_under(graph, total))
        return -sum(terms, jnp.zeros(())) - at.function.log_prior(at.function.model(move))

    return jax.value_and_grad(loss, argnums=(0, 1))(at.move, total)


@compiled_once
def _posterior(at: At, total: Received, data: Data) -> tuple[Posterior, Scalar]:
    model = at.function.model(at.move)
    graph = at.function.graph(model, data, at.jitter)
    q = beliefs_under(graph, total)
    posterior = model.posterior(graph, q, data.rows, single=data.single)
    return posterior, -sum(belief_terms(graph, q), jnp.zeros(()))
