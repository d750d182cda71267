"""Peak resident memory and time of a fit, in a process of its own.

With `--evaluation` of a single value and gradient, with compilation and once more without; with
`--sweeps` of one inference by at most ten sweeps of EP with a probit likelihood, compiled before.

python -m benchmarks.memory [--rows 100000] [--inputs 8] [--inducing 200] [--iterations 20]
                            [--evaluation | --sweeps]
"""

import argparse
import json
import subprocess
import sys

from benchmarks.results import Table

TABLE = Table("memory.csv", ("rows", "inputs", "M", "power"))

CHILD = """
import json, resource, sys, time
import numpy as np
import cavity

rows, inputs, M, iterations, power = map(float, sys.argv[1:])
r = np.random.default_rng(0)
X = r.standard_normal((int(rows), int(inputs)))
y = np.sin(X @ r.standard_normal(int(inputs))) + 0.1 * r.standard_normal(int(rows))
start = time.perf_counter()
model = cavity.GPRegressor(
    n_inducing=int(M), power=power, max_iterations=int(iterations), random_state=0
).fit(X, y)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({"seconds": seconds, "evaluations": model.n_evaluations_, "peak_gb": peak}))
"""

EVALUATION = Table("memory_evaluation.csv", ("rows", "inputs", "M", "power"))
EVALUATION_CHILD = """
import json, resource, sys, time
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import cavity
from cavity.learning.data.arrays import prepare
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective

rows, inputs, M, _, power = map(float, sys.argv[1:])
r = np.random.default_rng(0)
X, Z = r.standard_normal((int(rows), int(inputs))), r.standard_normal((int(M), int(inputs)))
y = np.sin(X @ r.standard_normal(int(inputs))) + 0.1 * r.standard_normal(int(rows))
kernel = cavity.kernels.RBF(1.0, np.ones(int(inputs)))
model = cavity.GP(kernel, cavity.likelihoods.Gaussian(), cavity.inducing.Points(Z))
data = prepare(X, y, power=power)
start = time.perf_counter()
evaluate = Objective(as_dtype(model, data), data)
with one_blas_thread():
    evaluate(np.zeros(evaluate.size))
    middle = time.perf_counter()
    evaluate(np.zeros(evaluate.size))
end = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({"seconds": middle - start, "peak_gb": peak, "compiled_seconds": end - middle}))
"""

SWEEPS = Table("memory_sweeps.csv", ("rows", "inputs", "M", "power"))
SWEEPS_CHILD = """
import json, resource, sys, time, warnings
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import cavity

rows, inputs, M, _, power = map(float, sys.argv[1:])
r = np.random.default_rng(0)
X, Z = r.standard_normal((int(rows), int(inputs))), r.standard_normal((int(M), int(inputs)))
y = np.sin(X @ r.standard_normal(int(inputs))) + 0.1 * r.standard_normal(int(rows)) > 0.0
kernel = cavity.kernels.RBF(1.0, np.full(int(inputs), 2.0))
model = cavity.GP(kernel, cavity.likelihoods.Bernoulli(), cavity.inducing.Points(Z))
seconds = []
method = cavity.PowerEP(max_sweeps=10, tolerance=1e-15, fallback=False)
for _ in range(2):
    start = time.perf_counter()
    found = cavity.infer(model, X, y.astype(float), power=power, method=method)
    seconds.append(time.perf_counter() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({"seconds": seconds[1], "peak_gb": peak, "sweeps": found.sites.sweeps}))
"""
CASES = {
    "fit": (CHILD, TABLE),
    "evaluation": (EVALUATION_CHILD, EVALUATION),
    "sweeps": (SWEEPS_CHILD, SWEEPS),
}


def measure(
    rows: int, inputs: int, M: int, power: float, iterations: int, child: str = CHILD
) -> dict:
    """What a fresh process finds: seconds, evaluations, and peak resident memory in GB."""
    arguments = map(str, (rows, inputs, M, iterations, power))
    done = subprocess.run(
        [sys.executable, "-c", child, *arguments], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--inputs", type=int, default=8)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=20)
    case = parser.add_mutually_exclusive_group()
    case.add_argument("--evaluation", dest="case", action="store_const", const="evaluation")
    case.add_argument("--sweeps", dest="case", action="store_const", const="sweeps")
    options = parser.parse_args()
    for power in (0.0, 0.5):
        key = {"rows": options.rows, "inputs": options.inputs, "M": options.inducing}
        child, table = CASES[options.case or "fit"]
        found = measure(**key, power=power, iterations=options.iterations, child=child)
        print(key | {"power": power} | found, flush=True)
        table.add(key | {"power": power} | found)


if __name__ == "__main__":
    main()
