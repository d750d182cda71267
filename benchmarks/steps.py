"""How far inducing inputs should move where logarithms of parameters move by one.

The variational bound of part of a set after 20 to 150 iterations of L-BFGS-B, for several step
sizes of inducing inputs in spreads of their column (by default `LOCATION` of learning/scales.py).

python -m benchmarks.steps [--rows 3000] [--inducing 100]
"""

import argparse
from typing import Any

import jax
import numpy as np

from benchmarks.peers import problems
from benchmarks.peers.with_cavity import _jitter, _model
from benchmarks.results import Table
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.scales import LOCATION
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.learning.optimisers.lbfgs import Progress, minimise
from cavity.parameters import free_parts, units

TABLE = Table("steps.csv", ("set", "rows", "M", "spreads", "iteration"))


def measure(name: str, rows: int, M: int, spreads: float) -> None:
    """Adds the bound after some iterations."""
    problem = problems.table(name, M, rows)
    data = prepare(problem["X"], problem["y"], power=0.0)
    model: Any = as_dtype(_model(problem, full=False), data)
    objective = Objective(model, data, jitter=_jitter(problem))
    parts = free_parts(model, objective.coordinates.maps, units(model))
    places = np.repeat([p[2].location for p in parts], [np.size(p[0]) for p in parts])
    scale = objective.coordinates.scale
    objective.coordinates.scale = scale * np.where(places, spreads / LOCATION, 1.0)
    bounds: list[float] = []

    def note(progress: Progress) -> None:
        bounds.append(-progress.objective)

    limits: Any = {"max_iterations": 150, "tolerance": 0.0, "callback": note}
    with one_blas_thread():
        minimise(objective, objective.first, bounds=objective.bounds, **limits)
    for iteration in (20, 40, 60, 100, 150):
        row = {"set": name, "rows": rows, "M": M, "spreads": spreads, "iteration": iteration}
        row |= {"bound": f"{bounds[min(iteration, len(bounds)) - 1]:.2f}"}
        print(row, flush=True)
        TABLE.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--inducing", type=int, default=100)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in ("kin40k", "pol", "protein"):
        for spreads in (1.0, 2.0, 4.0):
            measure(name, options.rows, options.inducing, spreads)


if __name__ == "__main__":
    main()
