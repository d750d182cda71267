"""One value and gradient of a state-space model, by the length of its series.

Two states, 30 inducing points, one output, a control, a chain of states and inducing variables in
closed form, at power 0 and 0.5, double precision: milliseconds with two threads, and peak resident
memory of a process of its own, beside that of one which only imports.

python -m benchmarks.state_space.cost [--lengths 1000,10000,100000] [--repeats 7]
"""

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks.results import Table

TABLE = Table("state_space_cost.csv", ("rows", "power"))
STATES, POINTS = 2, 30


def measured(rows: int, power: float, repeats: int) -> dict[str, float]:
    """Times and memory of this process, whose first evaluation this is."""
    import resource
    import time

    import jax
    import numpy as np

    from benchmarks.objective import medians_ms
    from cavity.learning.blas_threads import one_blas_thread
    from cavity.learning.data.given import Layout, as_training_data
    from cavity.learning.infer import as_dtype
    from cavity.learning.initialisation.state_space import (
        StateSpaceStart,
        starting_sites,
        state_space_starts,
    )
    from cavity.learning.methods.methods import PowerEP
    from cavity.learning.objectives.evidence import Objective

    jax.config.update("jax_enable_x64", True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    random, t = np.random.default_rng(0), np.arange(rows)
    u = random.standard_normal((rows, 1))
    y = (np.sin(0.2 * t) + 0.1 * random.standard_normal(rows))[:, None]
    series = np.zeros(rows)
    model, start = state_space_starts(StateSpaceStart(STATES, POINTS), y, u, series)[0]
    layout = Layout(power, None, {"series": series}, "skip")
    data: Any = as_training_data(model, u, y, PowerEP(), layout)
    sites = starting_sites(start, coupled=True)
    typed: Any = as_dtype(model, data)
    with one_blas_thread():
        began = time.perf_counter()
        evaluate = Objective(typed, data, method=PowerEP(), sites=sites)
        evaluate(evaluate.first)
        first = time.perf_counter() - began
        (milliseconds,) = medians_ms([lambda: evaluate(evaluate.first)], repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {"evaluation_ms": milliseconds, "first_s": first}
    return found | {"peak_mb": peak / 1e3, "imports_mb": before / 1e3}


def main() -> None:
    """One process for each length and power that is not in the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default="1000,10000,100000")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--here", nargs=2, type=float, default=None)
    options = parser.parse_args()
    if options.here is not None:
        rows, power = options.here
        print(json.dumps(measured(int(rows), power, options.repeats)))
        return
    for rows in map(int, options.lengths.split(",")):
        for power in (0.0, 0.5):
            if TABLE.has(rows=rows, power=power):
                continue
            command = [sys.executable, "-m", "benchmarks.state_space.cost", "--repeats"]
            command += [str(options.repeats), "--here", str(rows), str(power)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = {"rows": rows, "power": power} | json.loads(out.splitlines()[-1])
            print(found, flush=True)
            TABLE.add(found)


if __name__ == "__main__":
    main()
