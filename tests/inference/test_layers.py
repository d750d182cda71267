"""When plain sweeps of weights of several layers end."""

from types import SimpleNamespace
from typing import Any

import jaxtyping
import numpy as np
import pytest

from cavity.inference.solvers import layers
from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.inference.solvers.settings import FixedPointSolver

# Residuals and energies after each round of sweeps, and the round that should be the last.
WAYS = {
    "past a saddle": ((0.1, 0.01, 0.04, 0.3, 0.02, 0.002), (9.0, 8.0, 7.9, 7.0, 5.0, 4.9), 6),
    "in circles": ((0.1, 0.2, 0.1, 0.2, 0.1, 0.2), (9.0, 8.0, 8.0, 8.1, 8.0, 8.1), 5),
    "creeping": ((0.1, 0.08, 0.07, 0.06, 0.05, 0.002), (8.0, 8.0, 8.0, 8.0, 8.0, 8.0), 6),
    "falling slowly": ((0.5, 0.47, 0.44, 0.42, 0.39, 0.002), (8.0,) * 6, 6),
    "too far": ((0.5, 4.0, 0.1), (9.0, 8.0, 7.0), None),
    "no belief": ((0.5, 0.4, 0.1), (9.0, np.nan, 7.0), None),
}


@pytest.mark.parametrize("way", WAYS)
def test_sweeps_go_on_while_energy_or_residual_fall(way, monkeypatch):
    """The residual is small at a saddle, and no sign that sweeps are near their end."""
    residuals, energies, last = WAYS[way]

    def run_sweeps(problem, solver, sites):
        residual = residuals[sites]
        return sites + 1, SimpleNamespace(
            sweeps=solver.max_sweeps, residual=residual, converged=residual < solver.tolerance
        )

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # sites are their number
    monkeypatch.setattr(layers, "run_sweeps", run_sweeps)
    monkeypatch.setattr(layers, "energy_of", lambda problem, sites: energies[sites - 1])
    start: Any = 0
    problem: Any = SimpleNamespace()
    solver = FixedPointSolver()
    walked: Any = layers._walked(problem, solver, 0.2, start, quick=False)
    assert (None if walked is None else walked.sites) == last
    if last is not None:
        assert walked.sweeps == last * solver.layers.round


def test_extrapolated_sweeps_end_where_they_come_no_closer(monkeypatch):
    """Plain sweeps from the same sites would lead to the same place again."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    residuals, plain = iter((1e-3, 5e-4, 2e-3)), []

    def swept(problem, solver, sites):
        return sites, ConvergenceReport(10, next(residuals), 0, "parallel sweeps", converged=False)

    def run_sweeps(problem, solver, sites):
        plain.append(sites)
        return sites + 1, SimpleNamespace(sweeps=200)

    monkeypatch.setattr(layers, "_swept", swept)
    monkeypatch.setattr(layers, "run_sweeps", run_sweeps)
    problem: Any = SimpleNamespace()
    start: Any = 0
    best, report = layers._extrapolated(problem, FixedPointSolver(), 0.2, start)
    assert (best, plain, report.residual, report.sweeps) == (1, [0, 1], 5e-4, 430)
