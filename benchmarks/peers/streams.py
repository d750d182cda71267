"""Batches from the same first points: cavity's updates beside the published scripts.

Banana in three batches, 30 points, in random order and sorted by the first column; kin40k in 20
batches of 500 rows, 200 points.
"""

import numpy as np

from benchmarks.banana import data
from benchmarks.peers.record import Record
from benchmarks.peers.workers import answer_of
from benchmarks.streaming import kin40k

# Library and power of new rows; the past has power 0.
JOBS = (("cavity", 0.0), ("cavity", 0.5), ("streaming", 0.0))


def problem(case: str, order: str, seed: int, M: int) -> dict[str, np.ndarray]:
    """Arranged rows, test rows, and points that are rows of the first batch."""
    random, labels = np.random.default_rng(seed), case == "banana"
    batches = 3 if labels else 20
    X, y, X_test, y_test = data() if labels else kin40k()
    arranged = np.argsort(X[:, 0], kind="stable")
    if order == "random":
        arranged = random.permutation(len(X))
    X, y = X[arranged], y[arranged].astype(float)
    chosen = random.permutation(len(X) // batches)[:M]
    found = {"X": X, "y": y, "X_test": X_test, "y_test": y_test.astype(float), "Z": X[chosen]}
    numbers = {"batches": batches, "seed": seed, "labels": labels}
    return found | {name: np.array(value) for name, value in numbers.items()}


def measure(case: str, order: str, seed: int, record: Record, M: int) -> None:
    """One arrangement by each."""
    for library, power in JOBS:
        key = {"case": case, "order": order, "seed": seed, "M": M}
        key |= {"library": library, "power": power, "threads": record.threads}
        if record.has(**key):
            continue
        made = problem(case, order, seed, M) | {"power": np.array(power)}
        found = answer_of(library, record.threads, made, "stream")
        if found is not None:
            record.add(key | found)


def main(record: Record, seeds: int) -> None:
    """Random orders, and sorted by the first column, from points drawn by so many seeds."""
    for seed in range(seeds):
        for order in ("random", "sorted"):
            measure("banana", order, seed, record, 5 if record.quick else 30)
    if not record.quick:
        measure("kin40k", "random", 0, record, 200)
