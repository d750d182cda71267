"""Results that updates take, and give."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.past import Past
from cavity.inference.solvers.fixed_point import EXACT
from cavity.learning.result import FitResult, Inference
from cavity.learning.streaming.live_rows import LiveRows
from cavity.learning.streaming.scores import BatchScores
from cavity.models.posterior import AbstractPosterior


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
        past: what rows said that are gone; None where none are.
        live: the rows that are in memory, with sites of their own.
    """

    rows_seen: int
    lost: float
    before: BatchScores
    past: Past | None = dataclasses.field(repr=False)
    live: LiveRows = dataclasses.field(repr=False)


def kept_result(
    posterior: AbstractPosterior, log_evidence: float, *, rows: int, jitter: float
) -> Inference:
    """A result of which the posterior and the evidence were kept, as files and estimators do.

    Args:
        posterior: the posterior, with arrays of numpy or of JAX.
        log_evidence: of its rows, in nats.
        rows: their number.
        jitter: the share of the mean prior variance that was added.
    """

    def on_device(x: object) -> object:
        return jnp.asarray(x) if isinstance(x, np.ndarray | np.floating) else x

    posterior = jax.tree.map(on_device, posterior)
    message = "kept from before"
    return Inference(
        posterior, log_evidence, True, message, jitter, EXACT, None, None, n_rows=rows
    )
