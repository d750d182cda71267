"""Imports, predictions and overhead of Python, in processes that may use all cores.

`import cavity` loads nothing until a name is used, so the names that a session begins with are
timed as well: those of the library, and the estimator, which brings scikit-learn. Predictions are
of tables of 1,000 x 8 rows. The host adds to an evaluation the time of a search beyond that of
its compiled programs alone.
"""

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
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.infer import as_dtype
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
inside, run = [], objective.value_and_grad

def timed(*arguments):
    start = time.perf_counter()
    found = jax.block_until_ready(run(*arguments))
    inside.append(time.perf_counter() - start)
    return found

objective(objective.first)
objective.value_and_grad = timed
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

CODES = (IMPORT, LIBRARY, ESTIMATOR, PREDICTION, OVERHEAD)
