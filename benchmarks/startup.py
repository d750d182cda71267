"""Import time, first use, and two fits of 1,000 x 8 rows, each in a fresh process.

`import cavity` loads nothing until a name is used, so the names that a session begins with are
timed as well: those of the library, and the estimator, which brings scikit-learn.

python -m benchmarks.startup [--repeats 5]
"""

import argparse
import json
import statistics
import subprocess
import sys

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    for code in (IMPORT, LIBRARY, ESTIMATOR, FIT):
        runs = []
        for _ in range(repeats):
            done = subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, text=True
            )
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        for what in runs[0]:
            values = [run[what] for run in runs]
            row = {
                "what": what,
                "median": float(statistics.median(values)),
                "least": float(min(values)),
                "most": float(max(values)),
                "repeats": repeats,
            }
            print(row)
            TABLE.add(row)


if __name__ == "__main__":
    main()
