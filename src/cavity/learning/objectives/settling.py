"""Sites of rows at their fixed point, by passes over the parts of a table."""

import contextlib
import dataclasses
import uuid
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import numpy as np

from cavity.inference.problem import ROUNDING, Problem
from cavity.inference.solvers.convergence import ConvergenceReport, count
from cavity.inference.solvers.settings import FixedPointSolver
from cavity.learning.data.training_data import AbstractTrainingData, StoredSites
from cavity.learning.engines.kept import Lost
from cavity.learning.failures import EngineError
from cavity.learning.objectives.passes import (
    At,
    Received,
    Swept,
    block_empty,
    block_messages,
    block_sweep,
    both_swept,
)
from cavity.numerics.tree import to_numpy

T = TypeVar("T")

# Sweeps at the most, and sweeps without coming a tenth closer: each is a pass over all rows.
MOST, PATIENCE = 100, 12
# Times that sites are found again of which a process has lost some.
ATTEMPTS = 20


class Settled(NamedTuple):
    """Sites that sweeps found.

    Attributes:
        total: the messages of all rows.
        sites: where they are kept.
        report: how they were found.
    """

    total: Received
    sites: StoredSites
    report: ConvergenceReport


class Sweeper:
    """Finds the sites of rows anew at each point, from those that a search starts from.

    What it finds depends on the point alone, whatever was found before and wherever parts are
    worked on: sites that are lost with a process are found again with the same bits.

    Args:
        data: the table.
        solver: settings of sweeps.
    """

    def __init__(self, data: AbstractTrainingData, solver: FixedPointSolver):
        self.data, self.solver = data, solver
        self.fit, self.names, self.number = uuid.uuid4().hex, set[str](), 0
        self.best: str | None = None

    def at_settled(self, at: At, tolerance: float, then: Callable[[Settled], T]) -> T:
        """What a function makes of the sites at a point.

        Args:
            at: the point.
            tolerance: on what a further sweep would change, in standard deviations.
            then: the function, which may make passes with the sites.

        Raises:
            cavity.engines.EngineError: where processes have lost sites again and again.
        """
        rounding = ROUNDING * float(np.finfo(np.asarray(at.jitter).dtype).eps)
        tolerance = max(tolerance, rounding)
        for _ in range(ATTEMPTS):
            with contextlib.suppress(Lost):
                return then(self.settled(at, tolerance))
        raise EngineError(
            f"processes have lost the sites of their rows {ATTEMPTS} times while these were "
            "found: they end, or stop for long, before all parts are done; give them more memory, "
            "or the table in more parts"
        )

    def close(self) -> None:
        """Drops all sites, wherever they are."""
        self.data.drop_sites(self.fit)

    def settled(self, at: At, tolerance: float) -> Settled:
        """The sites at a point: by sweeps of adapted steps; where these fail, of fixed ones.

        Those of the least residual where no sweeps converge.
        """
        steps = (self.solver.step,)
        if self.solver.step is None and "damped sweeps" in self.solver.rungs:
            steps += self.solver.damped_steps
        best, sweeps, self.best = None, 0, None
        for step in steps:
            found = self._swept(at, tolerance, step)
            sweeps += found.report.sweeps
            if best is None or found.report.residual < best.report.residual:
                best, self.best = found, found.sites.name
            if found.report.converged:
                break
        assert best is not None
        return best._replace(report=dataclasses.replace(best.report, sweeps=sweeps))

    def _swept(self, at: At, tolerance: float, step: float | None) -> Settled:
        """Sweeps until a further one would change nothing by more than the tolerance.

        From sites without a proper belief they go back, and half as far.
        """
        settings = self.solver.sweeps
        length = 1.0 if step is None else step
        here = Settled(*self._begun(at), ConvergenceReport(0, np.inf, 0, "parallel sweeps", False))
        before, progress, since = here, np.inf, 0
        for sweep in range(1, min(MOST, self.solver.max_sweeps) + 1):
            result, sites = self._pass(at, here, length, keep=before.sites.name)
            residual, since = float(result.residual), since + 1
            if not np.isfinite(residual):
                length *= 0.5
                here = before
                if length < settings.shortest or since > PATIENCE:
                    break
                continue
            converged = residual < tolerance and float(result.skipped) == 0.0
            report = ConvergenceReport(
                sweep, residual, count(result.skipped), "parallel sweeps", converged
            )
            closer = residual < here.report.residual
            before, here = here, Settled(result.messages, sites, report)
            if converged:
                break
            if residual < 0.9 * progress:
                progress, since = residual, 0
            if step is None:
                length = min(1.25 * length, 1.0) if closer else 0.7 * length
            if since > PATIENCE or length < settings.shortest:
                break
        return here

    def _begun(self, at: At) -> tuple[Received, StoredSites]:
        """Messages of the sites that a search starts from: a pass, unless all are zero."""
        sites, some = StoredSites(self.fit, block_empty), self.data.exemplar
        sent = to_numpy(block_messages(at, block_empty(at, some), some))
        if any(np.any(leaf) for leaf in jax.tree.leaves(sent)):
            sent = self.data.summed(block_messages, at, sites=sites)
        return sent, sites

    def _pass(
        self, at: At, here: Settled, length: float, keep: str | None
    ) -> tuple[Swept, StoredSites]:
        """A sweep from sites, and where those that it makes are."""
        self.number += 1
        name, known = str(self.number), {here.sites.name, keep, self.best}
        forgotten = tuple(sorted(self.names - known))
        self.names = {*(self.names & known), name}
        sites = dataclasses.replace(here.sites, written=name, forgotten=forgotten)
        typed = np.asarray(length, np.asarray(at.jitter).dtype)
        arguments = (block_sweep, at, here.total, typed)
        swept = self.data.summed(*arguments, sites=sites, add=both_swept)
        return swept, StoredSites(self.fit, block_empty, name)


def check_passes(problem: Problem, method: str, likelihood: str) -> None:
    """Raises ValueError for sites that passes over a table cannot settle.

    Args:
        problem: the model on some rows.
        method: what it is learned by, for the message.
        likelihood: the same.
    """
    layout = problem.layout
    scalar = layout.scalar or problem.coupled
    if scalar and layout.stationary and not (layout.flat or problem.build.rows.blocked):
        return
    raise ValueError(
        f"{method}() keeps a site for every row of the likelihood {likelihood} of a kind that "
        "needs the rows in memory: give X and y, or method=cavity.TiedPowerEP(batch=1000)"
    )
