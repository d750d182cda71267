"""Whether products in single precision beside factorisations in double would pay.

The most they could gain: an evaluation with the time of its products (three at power 0, five
above it) replaced by that of the same products in single precision, conversions not counted. And
what they cost: the collapsed bound with loadings and their products in single precision, added up
and factorised in double, against the same in double, per 1,000 rows.

python -m benchmarks.precision [--repeats 7]
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.objective import medians_ms
from benchmarks.results import Table
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective

TABLE = Table("precision.csv", ("N", "M", "power", "noise"))
CHUNK = 1000


def bound(X: np.ndarray, y: np.ndarray, Z: np.ndarray, noise: float, dtype: Any) -> float:
    """The collapsed variational energy, its products in a given precision."""
    kernel = cavity.kernels.RBF(1.0, np.full(X.shape[1], np.sqrt(X.shape[1])))
    root = np.linalg.inv(
        np.linalg.cholesky(
            np.asarray(kernel.cross(jnp.asarray(Z), jnp.asarray(Z))) + 1e-8 * np.eye(len(Z))
        )
    )
    P, h, left = np.zeros((len(Z), len(Z))), np.zeros(len(Z)), 0.0
    for rows in np.split(np.arange(len(X)), len(X) // CHUNK):
        K = np.asarray(kernel.cross(jnp.asarray(Z), jnp.asarray(X[rows])))
        A = root.astype(dtype) @ K.astype(dtype)
        P += A @ A.T
        h += A @ y[rows].astype(dtype)
        left += np.sum(1.0 - np.sum(A.astype(float) ** 2, axis=0))
    B = np.linalg.cholesky(np.eye(len(Z)) + P / noise)
    c = np.linalg.solve(B, h) / noise
    constant = 0.5 * len(y) * np.log(2.0 * np.pi * noise) + 0.5 * (y @ y + left) / noise
    return float(constant + np.sum(np.log(np.diag(B))) - 0.5 * c @ c)


def measure(N: int, M: int, power: float, noise: float, repeats: int) -> None:
    """Prints and adds the gain that is possible and the loss."""
    r = np.random.default_rng(0)
    X = r.standard_normal((N, 8))
    Z, y = X[:M], np.sin(X @ r.standard_normal(8) / 3.0) + np.sqrt(noise) * r.standard_normal(N)
    kernel = cavity.kernels.RBF(1.0, np.full(8, np.sqrt(8.0)))
    inducing, likelihood = cavity.inducing.Points(Z), cavity.likelihoods.Gaussian(noise)
    data = prepare(X, y, power=power)
    typed: Any = as_dtype(cavity.GP(kernel, likelihood, inducing=inducing), data)
    evaluate = Objective(typed, data)
    start, product = np.zeros(evaluate.size), jax.jit(jnp.matmul)
    double = jnp.asarray(r.standard_normal((M, M))), jnp.asarray(r.standard_normal((M, N)))
    single = tuple(x.astype(jnp.float32) for x in double)
    with one_blas_thread():
        calls = [lambda: evaluate(start), lambda: product(*double), lambda: product(*single)]
        whole, wide, narrow = medians_ms(calls, repeats)
        energies = [bound(X, y, Z, noise, dtype) for dtype in (np.float64, np.float32)]
    count = 3 if power == 0.0 else 5
    row = {"N": N, "M": M, "power": power, "noise": noise, "evaluation_ms": whole}
    row |= {"double_ms": wide, "single_ms": narrow}
    row |= {"most_gain": whole / (whole - count * (wide - narrow))}
    row |= {"loss_per_1000": abs(energies[1] - energies[0]) * 1000.0 / N}
    print(row, flush=True)
    TABLE.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    jax.config.update("jax_enable_x64", True)
    for N, M in ((10_000, 200), (20_000, 500)):
        for power in (0.0, 0.5):
            for noise in (0.1, 0.001):
                measure(N, M, power, noise, repeats)


if __name__ == "__main__":
    main()
