"""The tighter bound of power 0 beside powers 0 and 0.5 and DTC, on kin40k.

Each learns parameters and inducing points on the same rows, from the same start; predictions are
of 3,000 others. Times of a value with its gradient, one thread, are medians in turns.

python -m benchmarks.tight [--rows 2000] [--points 100] [--seeds 3]
"""

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.bracket import rows_of_kin40k
from benchmarks.objective import medians_ms
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective

TABLE = Table("tight.csv", ("method", "rows", "points", "seed"))
METHODS = {
    "power 0": (0.0, cavity.PowerEP()),
    "tight": (0.0, cavity.PowerEP(tight=True)),
    "dtc": (0.0, cavity.PowerEP(dtc=True)),
    "power 0.5": (0.5, cavity.PowerEP()),
}
TEST = 3000


def start_model(X: np.ndarray, points: int) -> cavity.GP:
    kernel = kernels.RBF(1.0, np.full(X.shape[1], 2.0))
    Z = cavity.initialisation.select_inducing(kernel, X, points)
    return cavity.GP(kernel, likelihoods.Gaussian(0.1), inducing.Points(Z))


def evaluation_times(model: cavity.GP, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Median milliseconds of a value with its gradient, for each method."""
    calls = []
    for power, method in METHODS.values():
        data = prepare(X, y, power=power)
        typed: Any = as_dtype(model, data)
        evaluate = Objective(typed, data, method=method)
        calls.append(lambda evaluate=evaluate: evaluate(np.zeros(evaluate.size)))
    with one_blas_thread():
        return dict(zip(METHODS, medians_ms(calls, 15), strict=True))


def measure(rows: int, points: int, seed: int) -> None:
    """A row of the table for each method."""
    X, y = rows_of_kin40k(40_000)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:rows], order[rows : rows + TEST]
    start = start_model(X[train], points)
    times = evaluation_times(start, X[train], y[train])
    for name, (power, method) in METHODS.items():
        if TABLE.has(method=name, rows=rows, points=points, seed=seed):
            continue
        begun = time.perf_counter()
        result = cavity.fit(start, X[train], y[train], power=power, method=method)
        seconds = time.perf_counter() - begun
        found = result.posterior.predict(X[test])
        density = found.log_density(jnp.asarray(y[test]))
        model: Any = result.model
        row = {
            "method": name,
            "rows": rows,
            "points": points,
            "seed": seed,
            "evidence_per_row": float(result.log_evidence) / rows,
            "rmse": float(np.sqrt(np.mean((np.asarray(found.mean) - y[test]) ** 2))),
            "nlpd": -float(np.mean(density)),
            "noise_variance": float(model.likelihood.noise_variance()),
            "iterations": result.n_iterations,
            "seconds": seconds,
            "evaluation_ms": times[name],
        }
        TABLE.add(row)
        print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    with jax.enable_x64(True):
        for seed in range(options.seeds):
            measure(options.rows, options.points, seed)


if __name__ == "__main__":
    main()
