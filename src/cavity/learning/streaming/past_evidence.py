"""Evidence that past rows lose when seen through a model's own inducing variables."""

import dataclasses

from cavity.inference.past import Past, log_evidence_of_past
from cavity.inference.problem import Problem
from cavity.numerics.jit import compiled
from cavity.numerics.types import Scalar


def lost_by(problem: Problem, past: Past | None) -> float:
    """Nats by which the evidence of the past is below that at power 1, where nothing is lost.

    Args:
        problem: inference in a model at its parameters.
        past: the past; None for none.
    """
    if past is None or past.same or past.with_prior:
        return 0.0
    at_one = dataclasses.replace(past, power=1.0)
    build = dataclasses.replace(problem.build, past=at_one)  # type: ignore[call-arg]
    free, paid = _evidence(Problem(build, problem.jitter)), _evidence(problem)
    return max(float(free) - float(paid), 0.0)


@compiled
def _evidence(problem: Problem) -> Scalar:
    return log_evidence_of_past(problem.graph())
