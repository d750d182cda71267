"""Import time, first use, fits and predictions of small tables, each in a fresh process.

`import cavity` loads nothing until a name is used, so the names that a session begins with are
timed as well: those of the library, and the estimator, which brings scikit-learn. Fits are of
1,000 x 8 rows; the first one is timed again where an earlier process has left its programs in
JAX's persistent cache. What the host adds to an evaluation is the time of a search beyond that
of its compiled programs alone.

python -m benchmarks.startup [--repeats 5]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.results import Table

TABLE = Table("startup.csv", ("what",))

IMPORT = """
import json, time
start = time.perf_counter()
import jax
middle = time.perf_counter()
import cavity
end = time.perf_counter()
print(json.dumps({"import_jax": middle - start, "import_cavity_beyond_jax": end - middle}))
"""

FIRST_USE = """
import json, time
import jax
start = time.perf_counter()
import cavity
{use}
print(json.dumps({{"{what}": time.perf_counter() - start}}))
"""
LIBRARY = FIRST_USE.format(use="cavity.GP, cavity.fit", what="library_beyond_jax")
ESTIMATOR = FIRST_USE.format(use="cavity.GPRegressor", what="estimator_beyond_jax")

FIT = """
import json, time
import jax
import numpy as np
import cavity

r = np.random.RandomState(0)
X = r.randn(1000, 8)
y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * r.randn(1000)
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compiled.append(seconds) if "backend_compile" in event else None
)
times, compilations = [], []
for rows in (1000, 990):
    start = time.perf_counter()
    cavity.GPRegressor(n_inducing=100, random_state=0).fit(X[:rows], y[:rows])
    times.append(time.perf_counter() - start)
    compilations.append(len(compiled))
print(json.dumps({
    "first_fit": times[0], "second_fit": times[1], "first_fit_compiling": sum(compiled),
    "second_fit_compilations": compilations[1] - compilations[0],
}))
"""

PREDICTION = """
import json, statistics, time
import numpy as np
import cavity

r = np.random.RandomState(0)
X = r.randn(1000, 8)
y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * r.randn(1000)
found = {}
for n_inducing, what in ((100, "predict_2000_rows"), (None, "predict_2000_rows_exact")):
    fitted = cavity.GPRegressor(n_inducing=n_inducing, max_iterations=5, random_state=0).fit(X, y)
    new = r.randn(2000, 8)
    seconds = []
    for _ in range(21):
        start = time.perf_counter()
        fitted.predict(new, return_std=True)
        seconds.append(time.perf_counter() - start)
    found[what] = statistics.median(seconds[1:])
print(json.dumps(found))
"""

OVERHEAD = """
import json, statistics, time
import jax
import numpy as np
import cavity
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype, one_blas_thread
from cavity.learning.objectives.evidence import Objective
from cavity.learning.optimisers.lbfgs import minimise

jax.config.update("jax_enable_x64", True)
r = np.random.RandomState(0)
X = r.randn(500, 8)
y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * r.randn(500)
kernel = cavity.kernels.RBF(1.0, np.ones(8))
points = cavity.inducing.Points(X[:50])
model = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), points)
data = prepare(X, y, power=0.5)
objective = Objective(as_dtype(model, data), data)
inside, run = [], objective.run

def timed(*arguments):
    start = time.perf_counter()
    value, gradient = jax.block_until_ready(run(*arguments))
    inside.append(time.perf_counter() - start)
    return value, gradient

objective(objective.first)
objective.run = timed
over = []
with one_blas_thread():
    for _ in range(5):
        inside.clear()
        start = time.perf_counter()
        settings = {"bounds": objective.bounds, "max_iterations": 100, "tolerance": 0.0}
        minimise(objective, objective.first, **settings)
        over.append((time.perf_counter() - start - sum(inside)) / len(inside))
print(json.dumps({"host_per_evaluation": statistics.median(over)}))
"""


def runs_of(code: str, repeats: int, cache: str | None = None) -> list[dict[str, float]]:
    """What fresh processes print, one after the other."""
    places = {} if cache is None else {"JAX_COMPILATION_CACHE_DIR": cache}
    if cache is not None:
        places["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        places["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    plain = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    environment = plain | places
    found = []
    for _ in range(repeats):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


def keep(runs: list[dict[str, float]], repeats: int) -> None:
    """Prints and adds a row for everything that was timed."""
    for what in runs[0]:
        values = [run[what] for run in runs]
        row = {"what": what, "median": float(statistics.median(values))}
        row |= {"least": float(min(values)), "most": float(max(values)), "repeats": repeats}
        print(row, flush=True)
        TABLE.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    for code in (IMPORT, LIBRARY, ESTIMATOR, FIT, PREDICTION, OVERHEAD):
        keep(runs_of(code, repeats), repeats)
    with tempfile.TemporaryDirectory() as cache:
        warm = runs_of(FIT, repeats + 1, cache)[1:]
    keep([{"first_fit_cached": run["first_fit"]} for run in warm], repeats)


if __name__ == "__main__":
    main()
