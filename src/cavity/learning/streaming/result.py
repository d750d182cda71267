"""Results that updates take, and give."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.base import Messages
from cavity.inference.past import Past
from cavity.inference.solvers.convergence import EXACT
from cavity.learning.data.scales import Tallies
from cavity.learning.results.result import FitResult, Inference, Model, fields_as
from cavity.learning.streaming.live_rows import LiveRows
from cavity.learning.streaming.record import noted
from cavity.learning.streaming.scores import NO_SCORES, BatchScores
from cavity.models.posterior import AbstractPosterior
from cavity.models.remembered import posterior_past
from cavity.parameters.priors import flat

# Priors of a model's parameters, from what was counted of all rows.
PriorsOf = Callable[[Any, Tallies], Any]


@dataclasses.dataclass(frozen=True)
class UpdateResult(FitResult):
    """A model that went on learning: a `FitResult` of all rows so far.

    `log_evidence` and `objective` are those of all rows so far, `n_rows` counts the rows that are
    in memory.

    Attributes:
        rows_seen: rows so far.
        lost: nats of the evidence of the past that its view through the inducing variables at
            hand costs, never negative.
        before: scores of the new rows before they were learned from.
        past: messages of earlier rows that are no longer in memory; None without any.
        live: the rows that are in memory, with sites of their own.
    """

    rows_seen: int
    lost: float
    before: BatchScores
    past: Past | None = dataclasses.field(repr=False)
    live: LiveRows = dataclasses.field(repr=False)

    @property
    def _rows_so_far(self) -> int:
        return self.rows_seen


def as_update(
    result: Inference, past: Past | None, live: LiveRows, tallies: Tallies | None
) -> UpdateResult:
    """A result as one of an update without new rows.

    Args:
        result: what `infer`, `fit` or `update` gave.
        past: what rows said that are gone; None where none are.
        live: the rows that are in memory.
        tallies: what was counted of all rows.
    """
    fields = fields_as(result._as_fit(tallies), FitResult)
    seen, none = result._rows_so_far, NO_SCORES
    return UpdateResult(**fields, rows_seen=seen, lost=0.0, before=none, past=past, live=live)


@dataclasses.dataclass(frozen=True)
class KeptResult(Inference):
    """A result restored from its posterior and its evidence.

    Attributes:
        priors: function from a model, and counts and moments of all rows, to priors of its
            parameters; None for flat ones.
    """

    priors: PriorsOf | None = dataclasses.field(default=None, kw_only=True)

    def _densities(self, model: Model, tallies: Tallies | None) -> Model:
        if self.priors is None or tallies is None:
            return flat(model)
        return self.priors(model, tallies)


def kept_result(
    posterior: AbstractPosterior,
    log_evidence: float,
    *,
    rows: int,
    jitter: float,
    tallies: Tallies | None = None,
    priors: PriorsOf | None = None,
) -> KeptResult:
    """A result of which the posterior and the evidence were kept, as files and estimators do.

    Args:
        posterior: the posterior, with arrays of numpy or of JAX.
        log_evidence: of its rows, in nats.
        rows: their number.
        jitter: the share of the mean prior variance that was added.
        tallies: what was counted of its rows; None where that was not kept.
        priors: as `KeptResult` has them.
    """
    posterior = jax.tree.map(lambda x: jnp.asarray(x) if eqx.is_array(x) else x, posterior)
    message = "kept from before"
    known: dict[str, Any] = {"n_rows": rows, "tallies": tallies, "priors": priors}
    return KeptResult(posterior, log_evidence, True, message, jitter, EXACT, None, None, **known)


def memory_of(result: UpdateResult) -> dict[str, Any] | None:
    """The rows in memory and the messages of all others, as JSON values; None without rows."""
    if not len(result.live):
        return None
    told = () if result.past is None else result.past.messages
    return {
        "X": result.live.X.tolist(),
        "y": result.live.y.tolist(),
        "side": {name: values.tolist() for name, values in result.live.side.items()},
        "count": 0.0 if result.past is None else float(result.past.count),
        "messages": [
            {name: np.asarray(x).tolist() for name, x in vars(each).items()} for each in told
        ],
    }


def with_memory(result: Inference, memory: Mapping[str, Any] | None) -> Inference:
    """A result that was kept, with the memory that was kept beside it.

    Args:
        result: by `kept_result`.
        memory: by `memory_of`.
    """
    if memory is None:
        return result
    side = {name: np.asarray(values, float) for name, values in memory["side"].items()}
    live = LiveRows(np.asarray(memory["X"], float), np.asarray(memory["y"], float), side)
    past = None
    if memory["messages"]:
        # in the view of the posterior, in which rows left memory
        functions = posterior_past(result.posterior, result.log_evidence, 0.0).functions
        told = [{k: jnp.asarray(v) for k, v in each.items()} for each in memory["messages"]]
        past = Past(functions, tuple(Messages(**each) for each in told))
        past = noted(past, result.posterior, memory["count"])
    return as_update(result, past, live, result.tallies)
