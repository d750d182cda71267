"""One value and gradient of the sparse energy, beside the least that it needs.

The floor is two products of M x M by M x N matrices at power 0, four above it, and two passes over
the kernel matrix, timed in turn with the evaluations.

python -m benchmarks.objective [--repeats 15]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.results import Table
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective

TABLE = Table("objective.csv", ("N", "M", "D", "power"))


def medians_ms(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median milliseconds of each call; they take turns, and the first turn is not counted."""
    times = np.zeros((repeats + 1, len(calls)))
    for turn in times:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            jax.block_until_ready(call())
            turn[i] = time.perf_counter() - start
    return [float(t) for t in 1e3 * np.median(times[1:], axis=0)]


def measure(N: int, M: int, D: int, power: float, repeats: int) -> None:
    """Prints and adds the time of an evaluation, of a product and of the kernel matrix."""
    r = np.random.default_rng(0)
    X, Z = r.standard_normal((N, D)), r.standard_normal((M, D))
    y = np.sin(X @ r.standard_normal(D)) + 0.1 * r.standard_normal(N)
    kernels, likelihoods, inducing = cavity.kernels, cavity.likelihoods, cavity.inducing
    model = cavity.GP(kernels.RBF(1.0, np.ones(D)), likelihoods.Gaussian(), inducing.Points(Z))
    data = prepare(X, y, power=power)
    typed: Any = as_dtype(model, data)
    evaluate = Objective(typed, data)
    start = np.zeros(evaluate.size)
    product = jax.jit(jnp.matmul)
    cross = jax.jit(lambda kernel: kernel.cross(Z, X))
    left, right = jnp.asarray(r.standard_normal((M, M))), jnp.asarray(r.standard_normal((M, N)))
    calls: list[Callable[[], object]] = [
        lambda: evaluate(start),
        lambda: product(left, right),
        lambda: cross(typed.kernel),
    ]
    with one_blas_thread():
        whole, gemm, kernel = medians_ms(calls, repeats)
    floor = (2 if power == 0.0 else 4) * gemm + 2.0 * kernel
    row = {"N": N, "M": M, "D": D, "power": power, "evaluation_ms": whole, "gemm_ms": gemm}
    row |= {"kernel_ms": kernel, "gemms": whole / gemm, "floors": whole / floor}
    print(row, flush=True)
    TABLE.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    jax.config.update("jax_enable_x64", True)
    for N, M in ((1_000, 100), (10_000, 200), (20_000, 500), (100_000, 500)):
        for power in (0.0, 0.5):
            measure(N, M, 8, power, repeats)


if __name__ == "__main__":
    main()
