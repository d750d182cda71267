"""What sweeps of EP cost, beside what they are made of.

Sparse: one parallel sweep with a probit likelihood against one value and gradient of the
collapsed regression energy, at the same size. Full: EP to convergence against as many Cholesky
factorisations and inversions of an n x n matrix as it makes sweeps, and against GPy's EP for the
same problem, given an interpreter that has GPy 1.15.0. GPy ends when the mean square change of
its site parameters is below 1e-6, cavity when no moment changes by more than its tolerance, in
deviations: 1e-8 by default; at 1e-4 too its evidence is nearer the converged one than GPy's.

python -m benchmarks.ep_cost [--repeats 9] [--gpy PYTHON]
"""

import argparse
import functools
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.results import Table
from cavity.inference.energy import empty_sites
from cavity.inference.solvers.parallel import sweep
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.numerics.linalg import inverse_lower

TABLE = Table("ep_cost.csv", ("what", "N", "M", "power"))
COLUMNS = ("what", "N", "M", "power", "ms", "beside_ms", "ratio")
COLUMNS += ("sweeps", "log_evidence", "beside_sweeps", "beside_log_evidence")


def timed(work: Callable[[], object], repeats: int) -> float:
    """Median milliseconds, the first call left out."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        jax.block_until_ready(work())
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


@eqx.filter_jit
def one_sweep(model, data, method, sites):
    return sweep(data.problem(model, method.approximation, 1e-8).graph(), sites, 1.0)


def sparse(N: int, M: int, repeats: int) -> None:
    """A sweep at powers 1 and 0.5, and the collapsed energy at power 0.5."""
    r = np.random.default_rng(0)
    X = r.standard_normal((N, 8))
    f = np.sin(X @ r.standard_normal(8))
    labels, y = (f > 0.0).astype(float), f + 0.1 * r.standard_normal(N)
    points = cavity.inducing.Points(X[:M])
    parts = (cavity.kernels.RBF(1.0, np.full(8, 2.0)), points)
    regression = cavity.GP(parts[0], cavity.likelihoods.Gaussian(0.1), parts[1])
    data = prepare(X, y, power=0.5)
    objective = Objective(as_dtype(regression, data), data)
    collapsed = timed(lambda: objective(np.zeros(objective.size)), repeats)
    model = cavity.GP(parts[0], cavity.likelihoods.Bernoulli(), parts[1])
    for power in (1.0, 0.5):
        data = prepare(X, labels, power=power)
        laid, method = as_dtype(model, data), cavity.PowerEP()
        sites = empty_sites(data.problem(laid, method.approximation, 1e-8).graph())
        for _ in range(3):
            sites, _, _ = one_sweep(laid, data, method, sites)
        spent = timed(lambda: one_sweep(laid, data, method, sites), repeats)  # noqa: B023
        found = {"what": "sparse sweep", "N": N, "M": M, "power": power, "ms": spent}
        show(found | {"sweeps": 1} | {"beside_ms": collapsed, "ratio": spent / collapsed})


@jax.jit
def factorised(K):
    return inverse_lower(jnp.linalg.cholesky(K))


def full(n: int, repeats: int, gpy: str | None) -> None:
    """EP of a full GP classifier at power 1, to the default tolerance and to one like GPy's."""
    r = np.random.default_rng(1)
    X = r.standard_normal((n, 4))
    labels = (np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * r.standard_normal(n) > 0.0).astype(float)
    K = jnp.asarray(np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2)) + np.eye(n))
    once = timed(lambda: factorised(K), repeats)
    if gpy is None:
        print("no interpreter with GPy given (--gpy PYTHON): not compared")
    other = None if gpy is None else by_gpy(gpy, X, labels, repeats)
    print(other, flush=True)
    model = cavity.GP(cavity.kernels.RBF(2.0, 1.0), cavity.likelihoods.Bernoulli())
    for tolerance in (1e-8, 1e-4):
        method = cavity.PowerEP(tolerance=tolerance)
        infer = functools.partial(cavity.infer, model, X, labels, power=1.0, method=method)
        found = infer()
        spent, sweeps = timed(infer, repeats), found.sites.sweeps
        row = {"N": n, "M": 0, "power": 1.0, "ms": spent, "sweeps": sweeps}
        row |= {"log_evidence": f"{found.log_evidence:.8f}"}
        what = f"full inference to {tolerance:g}, beside "
        beside = {"beside_ms": once * sweeps, "ratio": spent / (once * sweeps)}
        show({"what": what + "factorisations"} | row | beside)
        if other is not None:
            beside = {"beside_ms": other["ms"], "ratio": spent / other["ms"]}
            beside |= {"beside_sweeps": other["sweeps"]}
            beside |= {"beside_log_evidence": f"{other['log_evidence']:.8f}"}
            show({"what": what + f"GPy {other['version']}"} | row | beside)


def by_gpy(python: str, X: np.ndarray, labels: np.ndarray, repeats: int) -> dict:
    """What the same problem costs GPy."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, X=X, labels=labels, variance=2.0)
        script = Path(__file__).with_name("ep_gpy.py")
        command = [python, str(script), str(path), str(repeats)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(row: dict) -> None:
    print(row, flush=True)
    TABLE.add({column: row.get(column, "") for column in COLUMNS})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--gpy", default=None, help="an interpreter that has GPy")
    asked = parser.parse_args()
    with jax.enable_x64(True), one_blas_thread():
        sparse(10_000, 200, asked.repeats)
        full(1_000, min(asked.repeats, 3), asked.gpy)


if __name__ == "__main__":
    main()
