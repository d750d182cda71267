"""What sweeps of EP cost, beside what they are made of.

Sparse: one parallel sweep with a probit likelihood against one value and gradient of the
collapsed regression energy, at the same size. Full: EP to convergence against as many Cholesky
factorisations and inversions of an n x n matrix as it makes sweeps.

python -m benchmarks.ep_cost [--repeats 9]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.results import Table
from cavity.inference.energy import empty_sites
from cavity.inference.sweep import sweep
from cavity.learning.data import prepare
from cavity.learning.infer import as_dtype, one_blas_thread
from cavity.learning.objective import Objective
from cavity.learning.settle import lay_out
from cavity.numerics.linalg import inverse_lower

TABLE = Table("ep_cost.csv", ("what", "N", "M", "power"))


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
    return sweep(lay_out(model, data, method, jnp.asarray(1e-8)), sites, 1.0)


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
        sites = empty_sites(lay_out(laid, data, method, jnp.asarray(1e-8)))
        for _ in range(3):
            sites, _, _ = one_sweep(laid, data, method, sites)
        spent = timed(lambda: one_sweep(laid, data, method, sites), repeats)  # noqa: B023
        found = {"what": "sparse sweep", "N": N, "M": M, "power": power, "ms": spent}
        show(found | {"beside_ms": collapsed, "ratio": spent / collapsed})


@jax.jit
def factorised(K):
    return inverse_lower(jnp.linalg.cholesky(K))


def full(n: int, repeats: int) -> None:
    """EP of a full GP classifier at power 1, to the default tolerance."""
    r = np.random.default_rng(1)
    X = r.standard_normal((n, 4))
    labels = (np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * r.standard_normal(n) > 0.0).astype(float)
    model = cavity.GP(cavity.kernels.RBF(2.0, 1.0), cavity.likelihoods.Bernoulli())
    found = cavity.infer(model, X, labels, power=1.0)
    spent = timed(lambda: cavity.infer(model, X, labels, power=1.0).log_evidence, repeats)
    K = jnp.asarray(np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2)) + np.eye(n))
    once = timed(lambda: factorised(K), repeats)
    row = {"what": "full inference", "N": n, "M": 0, "power": 1.0, "ms": spent}
    row |= {"beside_ms": once * found.sites.sweeps, "sweeps": found.sites.sweeps}
    show(row | {"ratio": spent / row["beside_ms"], "log_evidence": found.log_evidence})


def show(row: dict) -> None:
    print(row, flush=True)
    TABLE.add({"sweeps": 1, "log_evidence": "", **row})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    asked = parser.parse_args()
    with jax.enable_x64(True), one_blas_thread():
        sparse(10_000, 200, asked.repeats)
        full(1_000, min(asked.repeats, 3))


if __name__ == "__main__":
    main()
