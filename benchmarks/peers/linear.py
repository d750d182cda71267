"""Sparse linear regression: cavity beside the lasso, best subsets and Markov chains.

100 rows, neighbours correlated by 0.5, ten coefficients of 0.7 to 1.5 of either sign, noise of
variance 0.5. Each but the chains learns twice in one process, and the second time counts, when
programs are compiled. Chains are of nearly the model that cavity calls horseshoe: without its
slab, and with scale and noise drawn from half-Cauchy priors, where cavity learns both. They count
by the seconds that 400 effective draws of the worst coefficient take.
"""

from typing import Any

import numpy as np

from benchmarks import sparse
from benchmarks.peers.record import Record
from benchmarks.peers.workers import answer_of

# Library, method, and the columns that it is asked for.
JOBS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("cavity", "spike_slab", (500, 10_000)),
    ("cavity", "horseshoe", (500, 10_000)),
    ("cavity", "laplace", (500, 10_000)),
    ("sklearn", "lasso", (500, 10_000)),
    ("abess", "abess", (500, 10_000)),
    ("numpyro", "horseshoe", (500,)),
)


def problem(columns: int, seed: int) -> dict[str, np.ndarray]:
    """Rows, 500 test rows, and the coefficients."""
    made = sparse.problem(seed, 0.5, columns)
    return dict(zip(("X", "y", "X_test", "y_test", "w"), made, strict=True))


def measure(columns: int, seed: int, record: Record) -> None:
    """One draw by each."""
    made = problem(columns, seed)
    for library, method, sizes in JOBS:
        key = {"columns": columns, "seed": seed, "library": library, "method": method}
        key |= {"threads": record.threads}
        if record.has(**key) or not (record.quick or columns in sizes):
            continue
        found = answer_of(library, record.threads, made, "linear", method=method)
        if found is not None:
            record.add(key | {"version": found["version"]} | scored(found, made))


def scored(found: dict[str, Any], made: dict[str, np.ndarray]) -> dict[str, Any]:
    """Seconds, the relative error of coefficients, and the RMSE of test rows."""
    w = made["w"]
    wrong = made["X_test"] @ found["coef"] + found["intercept"] - made["y_test"]
    error = np.linalg.norm(found["coef"] - w) / np.linalg.norm(w)
    scores = {"error": float(error), "rmse": float(np.sqrt(np.mean(wrong**2)))}
    names = ("seconds", "converged", "effective", "divergences")
    return {name: found.get(name, "") for name in names} | scores


def main(record: Record, seeds: int) -> None:
    """All sizes; the largest for one draw."""
    if record.quick:
        measure(60, 0, record)
        return
    for seed in range(seeds):
        measure(500, seed, record)
    measure(10_000, 0, record)
