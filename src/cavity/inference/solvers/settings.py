"""Settings of the solver of fixed points, by which any part of it can be left out."""

import dataclasses

# What goes on where sweeps fail, in the order in which it is tried.
RUNGS = (
    "damped sweeps",
    "Newton's method",
    "line search",
    "continuation in the power",
    "noise continuation",
    "moment descent",
    "double loop",
)


@dataclasses.dataclass(frozen=True)
class FixedPointSolver:
    """How sites are brought to their fixed point.

    Attributes:
        step: the damping step in (0, 1]; None adapts it.
        tolerance: on what a further sweep would change, in standard deviations.
        max_sweeps: sweeps at the most.
        batch: rows whose sites move together; None for all of them.
        rungs: what goes on where sweeps fail: names among `RUNGS`.
    """

    step: float | None = None
    tolerance: float = 1e-8
    max_sweeps: int = 500
    batch: int | None = None
    rungs: tuple[str, ...] = ()
