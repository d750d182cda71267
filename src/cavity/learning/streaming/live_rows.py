"""Rows that are still in memory, and what is left of those that are not."""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites, beliefs, collect_messages
from cavity.inference.graph.base import Messages
from cavity.inference.graph.messages import added
from cavity.inference.past import Past, inducing_views
from cavity.inference.problem import Problem
from cavity.learning.data.training_data import Data
from cavity.models.remembered import as_past
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Scalar


@dataclasses.dataclass(frozen=True)
class LiveRows:
    """Rows that have sites of their own.

    Attributes:
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        side: side data by name, (N,) each.
    """

    X: np.ndarray
    y: np.ndarray
    side: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.X)

    def take(self, index: np.ndarray) -> "LiveRows":
        """Some of the rows."""
        side = {name: values[index] for name, values in self.side.items()}
        return LiveRows(self.X[index], self.y[index], side)

    def followed_by(self, others: "LiveRows") -> "LiveRows":
        """These rows, and then others."""
        side = {name: np.concatenate([x, others.side[name]]) for name, x in self.side.items()}
        X, y = np.concatenate([self.X, others.X]), np.concatenate([self.y, others.y])
        return LiveRows(X, y, side)


def rows_of(data: Data) -> LiveRows:
    """The rows of prepared data, without padding."""
    length = int(data.length)
    y, presence = np.asarray(data.rows.y), np.asarray(data.rows.presence)
    outputs = np.where(np.broadcast_to(presence, y.shape) > 0.0, y, np.nan)[:length]
    side = {name: np.asarray(x)[:length] for name, x in data.rows.side.items()}
    return LiveRows(np.asarray(data.rows.x)[:length], outputs, side)


def absorbed(
    data: Data, problem: Problem, sites: Sites, leaving: np.ndarray, power: float
) -> Past:
    """The past with the messages of rows that leave, in the view that they were found in.

    Args:
        data: all rows that were live.
        problem: inference in them.
        sites: their sites.
        leaving: whether each row leaves, (N,).
        power: the power of the past as a row.
    """
    mask = np.zeros(data.rows.y.shape[0])
    mask[: len(leaving)] = leaving
    some = dataclasses.replace(problem.build.rows, presence=data.rows.presence * mask[:, None])  # type: ignore[attr-defined]
    build = dataclasses.replace(problem.build, rows=some)
    functions, messages = _absorbed(problem, Problem(build, problem.jitter), sites)
    return Past(functions, messages, as_power(power, data.rows.y.dtype))


@compiled
def _absorbed(problem: Problem, some: Problem, sites: Sites) -> tuple[tuple, tuple]:
    graph, leaving = problem.graph(), some.graph()
    q = beliefs(graph, sites)
    messages = collect_messages(leaving, sites)
    pairs = zip(leaving.factors, sites, strict=True)
    scale = sum((factor.log_scale(q, store) for factor, store in pairs), jnp.zeros(()))
    messages[0] = _scaled(messages[0], scale)
    received = [getattr(variable, "received", None) for variable in graph.variables]
    total = [
        m if before is None else added(m, before)
        for m, before in zip(messages, received, strict=True)
    ]
    views = [inducing_views(edge.view) for edge in graph.only_factor().edges]
    return tuple(tuple(as_past(view) for view in each) for each in views), tuple(total)


def _scaled(messages: Messages, log_scale: Scalar) -> Messages:
    return dataclasses.replace(messages, log_scale=messages.log_scale + log_scale)


def rescaled(past: Past, log_evidence: float, problem: Problem) -> Past:
    """The same messages with the scale at which their evidence is this number."""
    missing = log_evidence - _evidence(problem, past)
    return dataclasses.replace(
        past, messages=(_scaled(past.messages[0], missing), *past.messages[1:])
    )


@compiled
def _evidence(problem: Problem, past: Past) -> Array:
    variables = problem.graph().variables
    total = jnp.zeros(())
    for variable, told in zip(variables, past.messages, strict=True):
        alone = dataclasses.replace(variable, received=None)  # type: ignore[type-var]
        total = total + alone.belief(told).log_normaliser  # type: ignore[attr-defined]
    return total


def as_power(power: float, dtype: np.dtype) -> float | jax.Array:
    """A power as inference takes it: a Python number at 0 and 1, an array in between."""
    return float(power) if power in (0.0, 1.0) else jnp.asarray(power, dtype)
