"""One value and gradient of the sparse energy, beside the matrix products it is made of.

python -m benchmarks.objective [--repeats 15]
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.results import Table
from cavity.learning.data import prepare
from cavity.learning.infer import as_dtype, one_blas_thread
from cavity.learning.objective import Objective

TABLE = Table("objective.csv", ("N", "M", "D", "power"))


def median_ms(fn: Callable[[], object], repeats: int) -> float:
    """The median time of a call in milliseconds, after one that is not counted."""
    fn()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def measure(N: int, M: int, D: int, power: float, repeats: int) -> None:
    """Prints and adds the time of an evaluation and of one M x M by M x N product."""
    r = np.random.default_rng(0)
    X, Z = r.standard_normal((N, D)), r.standard_normal((M, D))
    y = np.sin(X @ r.standard_normal(D)) + 0.1 * r.standard_normal(N)
    kernels, likelihoods, inducing = cavity.kernels, cavity.likelihoods, cavity.inducing
    model = cavity.GP(kernels.RBF(1.0, np.ones(D)), likelihoods.Gaussian(), inducing.Points(Z))
    data = prepare(X, y, power=power)
    evaluate = Objective(as_dtype(model, data), data)
    start = np.zeros(evaluate.size)
    product = jax.jit(jnp.matmul)
    left, right = jnp.asarray(r.standard_normal((M, M))), jnp.asarray(r.standard_normal((M, N)))
    with one_blas_thread():
        whole = median_ms(lambda: evaluate(start), repeats)
        gemm = median_ms(lambda: product(left, right).block_until_ready(), repeats)
    row = {"N": N, "M": M, "D": D, "power": power, "evaluation_ms": whole, "gemm_ms": gemm}
    row |= {"gemms": whole / gemm}
    print(row, flush=True)
    TABLE.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    jax.config.update("jax_enable_x64", True)
    for N, M in ((1_000, 100), (10_000, 200), (20_000, 500)):
        for power in (0.0, 0.5):
            measure(N, M, 8, power, repeats)


if __name__ == "__main__":
    main()
