"""Rows that are still in memory, and what is left of those that are not."""

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites, beliefs, collect_messages
from cavity.inference.graph.messages import added
from cavity.inference.graph.rows import WEIGHT
from cavity.inference.past import Past, inducing_views, log_evidence_of
from cavity.inference.problem import Problem
from cavity.learning.data.training_data import Data
from cavity.models.remembered import function_of_view, posterior_past
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Scalar

# The past of a result that is not yet an update's.
first_past = compiled(posterior_past)


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
        side = {
            name: np.concatenate([self._side(name), others._side(name)])
            for name in {**self.side, **others.side}
        }
        X, y = np.concatenate([self.X, others.X]), np.concatenate([self.y, others.y])
        return LiveRows(X, y, side)

    def _side(self, name: str) -> np.ndarray:
        """Side data by name; weights of 1 where none are given."""
        if name == WEIGHT and name not in self.side:
            return np.ones(len(self))
        return self.side[name]


def rows_of(data: Data) -> LiveRows:
    """The rows of prepared data, without padding; those of weight 0 have no outputs."""
    length = int(data.length)
    y, presence = np.asarray(data.rows.y), np.asarray(data.rows.presence)
    outputs = np.where(np.broadcast_to(presence, y.shape) > 0.0, y, np.nan)[:length]
    side = {name: np.asarray(x)[:length] for name, x in data.rows.side.items()}
    weights = presence[:length].max(axis=1)
    if np.any((weights > 0.0) & (weights != 1.0)):
        side[WEIGHT] = np.where(weights > 0.0, weights, 1.0)
    return LiveRows(np.asarray(data.rows.x)[:length], outputs, side)


def all_absorbed(problem: Problem, sites: Sites, power: Power, log_evidence: float) -> Past:
    """The past with the messages of all rows, in the view that they were found in.

    Args:
        problem: inference in the rows that were live.
        sites: their sites.
        power: the power of the past as a row.
        log_evidence: of all rows so far, in nats.
    """
    functions, messages, alone = _told(problem, sites)
    # the scale is the one at which the evidence is what it was
    return Past(functions, messages, power).with_log_scale(log_evidence - alone)


def absorbed(problem: Problem, sites: Sites, power: Power, leaving: np.ndarray) -> Past | None:
    """As `all_absorbed`, with some of the rows.

    None where prior and past are improper without the rows that stay.
    """
    rows = problem.build.rows  # type: ignore[attr-defined]
    mask = np.zeros(rows.y.shape[0])
    mask[: len(leaving)] = leaving
    some = dataclasses.replace(rows, presence=rows.presence * mask[:, None])
    those = Problem(dataclasses.replace(problem.build, rows=some), problem.jitter)
    functions, messages, alone = _told(those, sites)
    if not np.isfinite(alone):
        return None
    return Past(functions, messages, power).with_log_scale(_scale(problem, those, sites))


@compiled
def _told(problem: Problem, sites: Sites) -> tuple[tuple, tuple, Scalar]:
    """Functions and messages of rows and their past, together, and the log evidence of both."""
    graph = problem.graph()
    received = [getattr(variable, "received", None) for variable in graph.variables]
    total = tuple(
        m if before is None else added(m, before)
        for m, before in zip(collect_messages(graph, sites), received, strict=True)
    )
    views = [inducing_views(edge.view) for edge in graph.edges]
    functions = tuple(tuple(function_of_view(view) for view in each) for each in views)
    return functions, total, log_evidence_of(graph.variables, total)


@compiled
def _scale(problem: Problem, some: Problem, sites: Sites) -> Scalar:
    """The log scales of the sites of some rows, in the posterior of all."""
    q = beliefs(problem.graph(), sites)
    pairs = zip(some.graph().factors, sites, strict=True)
    return sum((factor.log_scale(q, store) for factor, store in pairs), jnp.zeros(()))


def as_power(power: float, dtype: np.dtype) -> Power:
    """A power as inference takes it: a Python number at 0 and 1, an array in between."""
    return float(power) if power in (0.0, 1.0) else jnp.asarray(power, dtype)
