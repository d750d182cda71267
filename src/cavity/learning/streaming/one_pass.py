"""Assumed density filtering: every row is visited once, and then gone."""

from cavity.inference.energy import Sites
from cavity.inference.past import log_evidence_of_past
from cavity.inference.problem import Problem
from cavity.inference.solvers.sequential import visit_once
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Scalar


@compiled
def visited_once(problem: Problem, zero: Sites) -> tuple[Sites, Scalar]:
    """The sites of one visit of each row, and the log evidence of the past and of these visits.

    Args:
        problem: inference in rows with private sites on single functions, after their past.
        zero: sites of precision zero.
    """
    graph = frozen(problem.graph())
    sites, densities = visit_once(graph, zero)
    return sites, log_evidence_of_past(graph) + densities
