"""The result of an update."""

import dataclasses

from cavity.inference.past import Past
from cavity.learning.result import FitResult
from cavity.learning.streaming.live_rows import LiveRows
from cavity.learning.streaming.scores import BatchScores


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
