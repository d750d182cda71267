"""What passes over parts cost: time of a sweep, and resident memory, in processes of their own.

sweeps: processor time of a sweep by passes over parts, with sites on disk, beside one in memory;
    probit, one core, medians.
memory: peak resident memory of a streamed Gaussian fit and a probit one, by the number of rows,
    which are made anew in every pass.
client: peak resident memory of the process that fits on a Dask cluster of two workers, with its
    scheduler in it, and without any fit.

python -m benchmarks.parts_cost sweeps | memory | client
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods

SWEEPS = Table("parts_sweeps.csv", ("rows", "M"))
MEMORY = Table("parts_memory.csv", ("case", "rows", "M"))
BATCH, INPUTS = 50_000, 8
FEW, MANY, REPEATS = 2, 6, 3


class Made:
    """Rows made from the number of their batch, the same in every pass.

    Args:
        first: the number of the first batch.
        batches: how many there are.
        size: rows of each.
        labels: whether outputs are labels.
    """

    def __init__(self, first: int, batches: int, size: int, *, labels: bool):
        self.numbers, self.size, self.labels = range(first, first + batches), size, labels

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number in self.numbers:
            random = np.random.default_rng(number)
            X = random.standard_normal((self.size, INPUTS))
            y = np.sin(X.sum(axis=1)) + 0.5 * random.standard_normal(self.size)
            yield X, (y > 0.0).astype(float) if self.labels else y


def model_of(M: int, *, labels: bool) -> cavity.GP:
    """A model with M random inducing points."""
    Z = np.random.default_rng(1).standard_normal((M, INPUTS))
    likelihood = likelihoods.Bernoulli() if labels else likelihoods.Gaussian(0.3)
    return cavity.GP(kernels.RBF(1.0, np.full(INPUTS, 2.0)), likelihood, inducing.Points(Z))


def peak() -> float:
    """Peak resident memory of this process, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def sweep_seconds(infer: Callable[[cavity.PowerEP], Any]) -> float:
    """Processor time of one sweep, by the difference between many and few of them."""

    def seconds(sweeps: int) -> float:
        method = cavity.PowerEP(max_sweeps=sweeps, tolerance=1e-15, fallback=False)
        start = time.process_time()
        infer(method)
        return time.process_time() - start

    for _ in range(2):  # programs are compiled, and compiled better
        seconds(MANY)
    found = [(seconds(MANY) - seconds(FEW)) / (MANY - FEW) for _ in range(REPEATS)]
    return statistics.median(found)


def sweeps(rows: int, M: int) -> dict[str, float]:
    """Times of a sweep in memory and by passes."""
    model, source = model_of(M, labels=True), Made(0, rows // BATCH, BATCH, labels=True)
    X, y = (np.concatenate(arrays) for arrays in zip(*source, strict=True))
    quarters = [[(X[i], y[i])] for i in np.array_split(np.arange(rows), 4)]
    passes = sweep_seconds(lambda how: cavity.infer(model, cavity.Parts(quarters), method=how))
    memory = sweep_seconds(lambda how: cavity.infer(model, X, y, method=how))
    return {"passes": passes, "memory": memory, "ratio": passes / memory}


def memory(rows: int, M: int, *, labels: bool) -> dict[str, float]:
    """Peak memory of a fit of few passes."""
    parts = [Made(i, 4, BATCH, labels=labels) for i in range(0, rows // BATCH, 4)]
    method = cavity.PowerEP(max_sweeps=3, fallback=False)
    cavity.fit(model_of(M, labels=labels), cavity.Parts(parts), method=method, max_iterations=1)
    return {"peak_mb": peak()}


def client(rows: int, M: int) -> dict[str, float]:
    """Peak memory of the process of a fit on two workers; without rows before any fit."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as joined:
        if rows:
            parts = cavity.Parts([Made(i, 1, rows // 64, labels=False) for i in range(64)])
            engine = cavity.engines.Dask(joined)
            model = model_of(M, labels=False)
            cavity.fit(model, parts, engine=engine, max_iterations=1)
        return {"peak_mb": peak()}


CASES: dict[str, Callable[[int, int], dict[str, float]]] = {
    "sweeps": sweeps,
    "gaussian": lambda rows, M: memory(rows, M, labels=False),
    "probit": lambda rows, M: memory(rows, M, labels=True),
    "client": client,
}


def measured(case: str, rows: int, M: int) -> dict[str, float]:
    """What a process of its own finds, on one core."""
    command = [sys.executable, "-m", "benchmarks.parts_cost", case, str(rows), str(M)]
    core = ["taskset", "-c", "0"] if case != "client" else []
    done = subprocess.run([*core, *command], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["sweeps", "memory", *CASES])
    parser.add_argument("size", type=int, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.size:  # the process of its own
        warnings.simplefilter("ignore")
        jax.config.update("jax_enable_x64", True)
        print(json.dumps(CASES[options.what](*options.size)))
        return
    if options.what == "sweeps":
        key = {"rows": 200_000, "M": 200}
        SWEEPS.add(key | measured("sweeps", **key))
        return
    sizes = {"memory": [1_000_000, 3_000_000], "client": [0, 64 * 512]}[options.what]
    for case in ["gaussian", "probit"] if options.what == "memory" else ["client"]:
        for rows in sizes:
            key = {"rows": rows, "M": 500 if case == "client" else 50}
            MEMORY.add({"case": case, **key} | measured(case, **key))


if __name__ == "__main__":
    main()
