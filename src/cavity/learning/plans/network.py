"""Networks by maximum evidence, from a smaller power where sites do not settle at a large one."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from cavity.learning.optimisers.lbfgs import INTERRUPTED
from cavity.learning.results.result import FitResult, Inference
from cavity.learning.run.stages import Run
from cavity.models.base import AbstractModel
from cavity.models.network.network import Network

R = TypeVar("R", bound=Inference)

# Residuals from which on sites are far from settled, in deviations, and a power at which sweeps
# of networks mostly settle.
FAR, LESS = 0.1, 0.5


def ranked(run: Run, starts: Sequence[Network]) -> list[Network]:
    """Starts that do not fail: those that settle first, and of these the likeliest first."""
    found = []
    for number, start in enumerate(starts):
        at = run.try_infer(start)
        if at is not None:
            evidence = -np.inf if at.log_evidence is None else float(at.log_evidence)
            found.append((not at.converged, -evidence, number, start))
    return [start for *_, start in sorted(found, key=lambda each: each[:3])]


def network_plan(run: Run, start: AbstractModel) -> FitResult:
    """The fit of a network; from a smaller power where sites do not settle at a large one.

    With many columns a large power may have no fixed point near the starting parameters, and have
    one where noise and prior suit the data.
    """
    power = np.max(run.options["power"])
    first = run.try_stage("own", start)
    if first is not None and (power <= LESS or not _is_far(first)):
        return first
    known = [] if first is None else [first]
    if power <= LESS:
        return run.best(known)
    said = f"the posterior is that of power {LESS:g}"
    cut = f"{INTERRUPTED}; {said}"
    near = run.try_stage("smaller", start, power=LESS, ended=lambda best: best.stopped(cut))
    if near is None or _is_far(near):
        return run.best(known)
    near = near.judged(f"sites did not settle at power {power:g}; {said}", converged=False)

    def ended(last: FitResult) -> FitResult:
        return run.best([near]).stopped(cut) if _is_far(last) else last

    last = run.try_stage("again", near.model, ended=ended)
    return run.best([near if last is None or _is_far(last) else last])


def _is_far(result: Inference) -> bool:
    """True where sites are far from settled."""
    return not result.converged and not result.sites.residual < FAR


def with_advice(result: R, power: Any) -> R:
    """The result, with a word on the power where sites are far from settled at a large one."""
    if not _is_far(result) or np.max(power) <= LESS:
        return result
    return result.saying(f"at power={LESS:g} sites of networks settle more often")
